"""What one card can do about one entry, and what each way costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import MigMode
from mig_manager.geometry.resolve import Wanted
from mig_manager.geometry.state import Card
from mig_manager.planner.entries import Entries
from mig_manager.planner.holding import CardHolding
from mig_manager.planner.search import card_options
from mig_manager.planner.target import CardTarget, TargetSlice, target_of

Cost = tuple[int, int, int, int]
"""Private holders evicted, GPU instances destroyed, compute instances destroyed, minus openness."""

NOTHING: Cost = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One way for one card: its entry, its target (``None``: the card stays untouched), and the cost.

    ``shared`` is the bit set of holders that also hold slices of other cards and must go; they are not in ``cost``.
    """

    entry: int | None
    target: CardTarget | None = None
    shared: int = 0
    cost: Cost = NOTHING
    reset: bool = False


def choices(card: Card, index: int | None, entries: Entries, held: CardHolding, *, reset: bool) -> Iterator[Choice]:
    """The ways in which ``card`` can take entry ``index``; with ``reset`` its group is reset and it loses everything.

    Nothing is yielded when the entry cannot be had, or not without a reset.
    """
    mode = entries.mode(index)
    if index is None or mode is MigMode.UNMANAGED:
        # Reset for the sake of another card of its group, it is rebuilt as it was.
        rebuilt = reset and card.mig_capable
        yield _wiped(Choice(index, target_of(card), reset=True), card, held) if rebuilt else Choice(index)
        return
    wanted = entries.wanted(card, index)
    if isinstance(wanted, LayoutError):
        return
    on, changes = mode is MigMode.ENABLED, entries.changes_mode(card, index)
    if not reset and not changes and card.mig_capable:
        yield from _recut(card, index, wanted, held) if on else (Choice(index, CardTarget(card.uuid, mig=False)),)
    elif not card.mig_capable:
        yield Choice(index)  # MIG is to be off, and there is none
    elif not changes or _becomes_current(card, reset=reset):
        slices, openness = _empty_card(card, wanted) if on else ((), 0)
        target = CardTarget(card.uuid, on, slices)
        yield _wiped(Choice(index, target, cost=(0, 0, 0, -openness), reset=reset), card, held)


def _becomes_current(card: Card, *, reset: bool) -> bool:
    """Whether another mode of the card becomes current, with or without a reset."""
    return reset if card.mode_change is ModeChange.RESET else card.mode_change is not ModeChange.REBOOT


def _recut(card: Card, index: int, wanted: tuple[Wanted, ...], held: CardHolding) -> Iterator[Choice]:
    """MIG is on and stays on: keep what can be kept."""
    for option in card_options(card.profiles, held.instances, wanted, held.shared):
        private = (option.evicted & ~held.shared).bit_count()
        cost = (private, option.destroyed, option.rebuilt, -option.openness)
        target = CardTarget(card.uuid, mig=True, slices=option.slices)
        yield Choice(index, target, option.evicted & held.shared, cost)


def _empty_card(card: Card, wanted: tuple[Wanted, ...]) -> tuple[tuple[TargetSlice, ...], int]:
    best = card_options(card.profiles, (), wanted, 0)[0]
    return best.slices, best.openness


def _wiped(choice: Choice, card: Card, held: CardHolding) -> Choice:
    """Everybody on the card goes. A card with MIG off is one slice, which is lost when MIG is enabled."""
    destroyed = len(card.instances) if card.mig_current else int(choice.target is not None and choice.target.mig)
    private = (held.everybody & ~held.shared).bit_count()
    cost = (private, destroyed, 0, choice.cost[3])
    return replace(choice, shared=held.everybody & held.shared, cost=cost)
