"""The look at the cards before a plan is begun: would anything go that nobody planned, or that somebody uses?"""

from __future__ import annotations

from collections.abc import Mapping

from mig_manager.geometry.state import Card, Holder, Holders, holders_of_card, holders_of_instance
from mig_manager.gpu.holders import HeldError, holders_of_compute
from mig_manager.gpu.journal import Targets
from mig_manager.gpu.parts import Action, Part, UnplannedError, compute_name_of, name_of, parts_on
from mig_manager.gpu.port import GpuError
from mig_manager.planner.plan import CardPlan, Impact, Plan
from mig_manager.planner.target import UNCHANGED, Difference, difference


def objection(plan: Plan, cards: Mapping[str, Card], targets: Targets, holders: Holders) -> GpuError | None:
    """Why ``plan`` must not be begun with the cards as they are now; ``None`` if nothing is in the way.

    ``holders`` count whether they are leaving or not: what is used is not destroyed.
    """
    changes = {u: difference(card, targets[u]) for u, card in cards.items()}
    planned = {p.card.uuid: p for p in plan.cards}
    for uuid, card in cards.items():
        error = _unplanned(card, changes[uuid], planned.get(uuid))
        if error is not None:
            return error
    groups = {cards[u].reset_group for u, change in changes.items() if not change.becomes_current} - {""}
    reboot = plan.impact is Impact.REBOOT_NODE
    held: dict[str, frozenset[Holder]] = {}
    for uuid, card in cards.items():
        wiped = reboot or not changes[uuid].becomes_current or card.reset_group in groups
        held |= _held(card, changes[uuid], holders, wiped=wiped)
    if not held:
        return None
    act = next(iter(held)) if len(held) == 1 else "applying the plan"
    return HeldError(act, frozenset().union(*held.values()))


def _unplanned(card: Card, now: Difference, plan: CardPlan | None) -> UnplannedError | None:
    then = plan.difference if plan is not None else UNCHANGED
    if _changes_mode(now) and not _changes_mode(then):
        return UnplannedError(f"changing the MIG mode of {card.label}")
    extra = _going(card, now) - (_going(plan.card, then) if plan is not None else frozenset())
    # Of an instance that goes as a whole that is said, and not the compute instances in it.
    for part in sorted(extra, key=lambda p: (p.placement, p.compute is not None)):
        return UnplannedError(_act_on(card, part))
    return None


def _act_on(card: Card, part: Part) -> str:
    name = name_of(card, part.profile_id, part.placement)
    if part.compute is None:
        return f"{Action.DESTROY_INSTANCE} {name}"
    return f"{Action.DESTROY_COMPUTE} {part.compute.size}c at {part.compute.start} of {name}"


def _changes_mode(change: Difference) -> bool:
    return change.set_mode is not None or not change.becomes_current


def _going(card: Card, change: Difference) -> frozenset[Part]:
    return parts_on(card, change.destroy) | {
        Part(card.uuid, kept.instance.profile_id, kept.instance.placement, compute.placement)
        for kept in change.keep
        for compute in kept.destroy_compute
    }


def _held(card: Card, change: Difference, holders: Holders, *, wiped: bool) -> dict[str, frozenset[Holder]]:
    """Who uses what goes, by the act that would hurt them."""
    if wiped:
        found = {f"changing the MIG mode of {card.label}": holders_of_card(holders, card.uuid)}
    else:
        found = {
            f"{Action.DESTROY_INSTANCE} {name_of(card, g.profile_id, g.placement)}": holders_of_instance(
                holders, card.uuid, g.id
            )
            for g in change.destroy
        }
        for kept in change.keep:
            for compute in kept.destroy_compute:
                act = f"{Action.DESTROY_COMPUTE} {compute_name_of(card, kept.instance, compute.placement)}"
                found[act] = holders_of_compute(holders, card.uuid, kept.instance, compute)
    return {act: who for act, who in found.items() if who}
