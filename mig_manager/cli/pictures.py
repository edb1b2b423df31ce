"""The pictures of layouts: what each layout makes of each product, equal results drawn once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mig_manager.cli.fitting import fits, known_cards
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode
from mig_manager.geometry.profiles import GpuInstanceProfile, Placement, ProfileTable
from mig_manager.geometry.state import Card
from mig_manager.planner.node import plan_node
from mig_manager.render.svg import Box


@dataclass(frozen=True)
class Picture:
    """What a card looks like; names are shapes, so that cards with other memory share it."""

    units: int
    boxes: tuple[Box, ...]


def pictures(layout: Layout) -> dict[Picture, list[str]]:
    """Every picture of a layout with the products it is true for. A layout with counts can give a product several."""
    found: dict[Picture, list[str]] = {}
    fitting = fits(layout)
    for card in known_cards():
        for index in fitting[card.model].entries:
            models = found.setdefault(draw(card, layout.gpus[index]), [])
            if card.model not in models:
                models.append(card.model)
    return found


def draw(card: Card, entry: GpuEntry) -> Picture:
    """The card cut as the entry says, as the planner places it on an empty card."""
    table = card.profiles
    if entry.mig is not MigMode.ENABLED:
        return Picture(table.units, (Box(0, table.units, "MIG off: one whole GPU", None),))
    (planned,) = plan_node([card], {}, Layout((replace(entry, match=None, count=None),))).cards
    slices = planned.target.slices if planned.target else ()
    boxes = [
        Box(
            s.placement.start,
            s.placement.size,
            shape_label(table[s.profile_id], table),
            table[s.profile_id].slice_count,
        )
        for s in slices
    ]
    return Picture(table.units, tuple(_with_free(table, boxes)))


def shape_label(profile: GpuInstanceProfile, table: ProfileTable) -> str:
    """The name without memory; the 1g with twice the memory is told apart by its size."""
    return f"{profile.name.shape} double" if is_double(profile, table) else str(profile.name.shape)


def is_double(profile: GpuInstanceProfile, table: ProfileTable) -> bool:
    """Whether the table has a smaller profile of the same shape."""
    return any(p.name.shape == profile.name.shape and p.size < profile.size for p in table)


def _with_free(table: ProfileTable, boxes: list[Box]) -> list[Box]:
    occupied = sum(Placement(b.start, b.size).mask for b in boxes)
    usable = table.usable_units(occupied)
    free: list[Box] = []
    for unit in range(table.units):
        if occupied >> unit & 1:
            continue
        label = "free" if usable >> unit & 1 else "unusable"
        if free and free[-1].start + free[-1].size == unit and free[-1].label == label:
            free[-1] = replace(free[-1], size=free[-1].size + 1)
        else:
            free.append(Box(unit, 1, label))
    return sorted([*boxes, *free], key=lambda b: b.start)
