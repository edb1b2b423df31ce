"""What is drawn of a card: its slices now, or its slices to be, as cells of a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import Card, GpuInstance, Holders, holders_of_instance
from mig_manager.planner.plan import CardPlan
from mig_manager.render.bar import Cell, Word, room
from mig_manager.render.look import Role

DEFAULT_UNITS = 8
"""The grid of cards of which none is known: their bar has only one cell."""

Marks = Callable[[GpuInstance], Iterable[Word]]


def units_of(card: Card) -> int:
    """How many memory units the card's bar has."""
    return card.table.units if card.table is not None else DEFAULT_UNITS


def cells_now(card: Card, marks: Marks = lambda _: ()) -> list[Cell]:
    """The card as it is; ``marks`` adds words to a slice."""
    note = mode_note(card)
    if note or card.table is None:
        return [_whole(card, note or "profiles unknown")]
    cells = [
        Cell(
            i.placement.start,
            i.placement.size,
            (*_name(card.table, i.profile_id), *marks(i), *_compute(card.table, i.profile_id, _placements(i))),
        )
        for i in card.instances
    ]
    return _with_free_cells(card.table, cells)


def cells_planned(plan: CardPlan, holders: Holders) -> list[Cell]:
    """The card as the plan makes it, with what stays (and is busy) and what is created marked."""
    card = plan.card
    busy = holder_marks(card, holders)
    if plan.target is None:
        return cells_now(card, busy)
    if not plan.target.mig:
        return [_whole(card, "MIG off: one whole GPU")]
    if card.table is None:
        return [_whole(card, "profiles unknown")]
    kept = {(k.instance.profile_id, k.instance.placement): k.instance for k in plan.difference.keep}
    cells = []
    for piece in plan.target.slices:
        stays = kept.get((piece.profile_id, piece.placement))
        marks = (Word("keep", Role.DIM), *busy(stays)) if stays else (Word("create", Role.GOOD),)
        words = (*_name(card.table, piece.profile_id), *marks, *_compute(card.table, piece.profile_id, piece.compute))
        cells.append(Cell(piece.placement.start, piece.placement.size, words))
    return _with_free_cells(card.table, cells)


def mode_note(card: Card) -> str:
    """Why the card has no slices to draw; empty when it may have some."""
    if not card.mig_capable:
        return "no MIG: one whole GPU"
    if not card.mig_current:
        return "MIG off: one whole GPU" + (", on after a reset" if card.mig_pending else "")
    return ""


def holder_marks(card: Card, holders: Holders) -> Marks:
    """Marks the slices that somebody uses."""

    def marks(instance: GpuInstance) -> Iterator[Word]:
        if holders_of_instance(holders, card.uuid, instance.id):
            yield Word("busy", Role.WARN)

    return marks


def _with_free_cells(table: ProfileTable, cells: Iterable[Cell]) -> list[Cell]:
    """The cells in order, with cells for what is free between them, told apart by whether a profile could use it."""
    ordered = sorted(cells, key=lambda c: c.start)
    occupied = sum(Placement(c.start, c.size).mask for c in ordered)
    covered: list[Cell] = []
    at = 0
    for cell in [*ordered, Cell(table.units, 0, ())]:
        if cell.start > at:
            gap = Placement(at, cell.start - at)
            word = "free" if gap.mask & table.usable_units(occupied) else "unusable"
            covered.append(Cell(gap.start, gap.size, (Word(word, Role.DIM),)))
        if cell.size:
            covered.append(cell)
        at = cell.start + cell.size
    return covered


def _whole(card: Card, text: str) -> Cell:
    return Cell(0, units_of(card), tuple(Word(word) for word in text.split()))


def _name(table: ProfileTable, profile_id: int) -> tuple[Word, ...]:
    profile = table.get(profile_id)
    if profile is None:
        return (Word(f"#{profile_id}"),)
    name = profile.name
    if len(str(name)) <= room(table.units, profile.size) or not name.attributes:
        return (Word(str(name), Role.STRONG),)
    plain = SliceName(name.gpu, name.memory_gb)
    return (Word(str(plain), Role.STRONG), Word(name.attributes, Role.STRONG))


def _placements(instance: GpuInstance) -> list[Placement]:
    return sorted(c.placement for c in instance.compute)


def _compute(table: ProfileTable, profile_id: int, compute: Sequence[Placement]) -> Iterator[Word]:
    """Compute instances, unless it is the one that is as wide as its GPU instance."""
    profile = table.get(profile_id)
    if profile is not None and [c.size for c in compute] == [profile.slice_count]:
        return
    if not compute:
        yield Word("no compute", Role.WARN) if profile and profile.size > 1 else Word("empty", Role.WARN)
    for placement in compute:
        yield Word(f"{placement.size}c@{placement.start}")
