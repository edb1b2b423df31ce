"""Profiles that exist for every card, by their names alone, so that a new GPU needs no release.

``all-<slice>``    every card is filled with that slice: ``all-1g.10gb``, or by shape ``all-1g``, ``all-1g.me``
``all-balanced``   2 x 1g + 2g + 3g on cards with seven compute slices, 2 x 1g + 2g on cards with four
``all-disabled``   MIG is off on every card

A derived layout is written in terms that each card resolves for itself (shapes, ``max``, the number of compute
slices), so one layout serves a node with cards of several kinds. Names are label values; the ``+`` of a slice name is
written as a dot, as NVIDIA does in resource names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.geometry.resolve import find_profile

BALANCED = "all-balanced"
DISABLED = "all-disabled"
_PREFIX = "all-"

EXAMPLES = (BALANCED, DISABLED, "all-1g", "all-2g", "all-3g")
"""What is suggested where the cards, and with them their derived names, are not known."""

# What NVIDIA's default configuration calls balanced, per number of compute slices of the whole card.
_BALANCED_SLICES = {
    7: ((SliceName(1), 2), (SliceName(2), 1), (SliceName(3), 1)),
    4: ((SliceName(1), 2), (SliceName(2), 1)),
}

_ATTRIBUTE_DOT = re.compile(r"\.(?=[a-z])")


def label_value(name: SliceName) -> str:
    """The slice name as part of a label value or profile name: ``1g.10gb.me`` for ``1g.10gb+me``."""
    return str(name).replace("+", ".").replace(",", "_")


def from_label_value(text: str) -> SliceName:
    """The slice name that ``label_value`` wrote; LayoutError (InvalidSlice) if it is none."""
    return SliceName.parse(_ATTRIBUTE_DOT.sub("+", text.replace("_", ","), count=1))


def derived_names(table: ProfileTable) -> list[str]:
    """The derived names that a card with this table understands: shapes first, then full names, then the others."""
    shapes = dict.fromkeys(label_value(p.name.shape) for p in table)
    full = dict.fromkeys(label_value(p.name) for p in table)
    names = [_PREFIX + slice_name for slice_name in (*shapes, *full)]
    if _is_balanced_on(table):
        names.append(BALANCED)
    return list(dict.fromkeys([*names, DISABLED]))


def derived_layout(name: str, tables: Collection[ProfileTable] = ()) -> Layout:
    """The layout of that name.

    With ``tables``, those of the cards it is meant for, at least one of them must understand the name. Without, any
    name of the right form is a layout, and the cards decide. Raises LayoutError (UnknownProfile).
    """
    layout = _layout(name)
    if layout is None or (tables and not any(_understands(table, layout) for table in tables)):
        known = {known for table in tables for known in derived_names(table)}
        raise unknown_profile(name, known or EXAMPLES)
    return layout


def unknown_profile(name: str, known: Collection[str]) -> LayoutError:
    """The error for a name that nobody knows; ``known`` are those that would do."""
    near = difflib.get_close_matches(name, sorted(known), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known ones are {', '.join(sorted(known))}"
    return LayoutError("UnknownProfile", f"no profile is called {name!r}", hint)


def _layout(name: str) -> Layout | None:
    if name == DISABLED:
        return Layout((GpuEntry(mig=MigMode.DISABLED),), name)
    if name == BALANCED:
        return Layout(tuple(_balanced_entry(slices) for slices in _BALANCED_SLICES), name)
    if not name.startswith(_PREFIX):
        return None
    try:
        wanted = from_label_value(name.removeprefix(_PREFIX))
    except LayoutError:
        return None
    if wanted.compute is not None:
        return None
    return Layout((GpuEntry((SliceRequest(wanted, "max"),)),), name)


def _balanced_entry(compute_slices: int) -> GpuEntry:
    requests = tuple(SliceRequest(name, count) for name, count in _BALANCED_SLICES[compute_slices])
    return GpuEntry(requests, Match(compute_slices=compute_slices))


def _understands(table: ProfileTable, layout: Layout) -> bool:
    if layout.name == BALANCED:
        return _is_balanced_on(table)
    try:
        for request in layout.gpus[0].slices:
            find_profile(request.slice, table, table.full.name.memory_gb or 1)
    except LayoutError:
        return False
    return True


def _is_balanced_on(table: ProfileTable) -> bool:
    wanted = _BALANCED_SLICES.get(table.full.slice_count, ())
    shapes = {p.name.shape for p in table}
    return bool(wanted) and all(name in shapes for name, _ in wanted)
