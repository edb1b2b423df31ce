"""Why a layout does not fit on a card, in words that say what to change.

The search only answers yes or no. When it says no, this module looks for the nearest thing that is true: a profile
that exists only so often, more memory units than there are, or units that are free in the wrong places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.profiles import GpuInstanceProfile, ProfileTable
from mig_manager.geometry.resolve import Wanted
from mig_manager.planner.placement import arrange, counts_of, feasible, within_engine_limits


def does_not_fit(table: ProfileTable, wanted: Sequence[Wanted]) -> LayoutError:
    """The error for a multiset that ``planner.search`` found infeasible on the empty card."""
    problem = _pins(table, wanted) or _too_many(table, wanted) or _too_large(table, wanted) or _blocked(table, wanted)
    return LayoutError("LayoutDoesNotFit", problem, _remedy(table, wanted))


def _pins(table: ProfileTable, wanted: Sequence[Wanted]) -> str:
    pinned = [(table[w.profile_id], w.start) for w in wanted if w.start is not None]
    units: dict[int, str] = {}
    for profile, start in pinned:
        for unit in range(start, start + profile.size):
            if unit in units:
                return f"{profile} pinned at {start} overlaps {units[unit]}"
        units |= dict.fromkeys(range(start, start + profile.size), f"{profile} pinned at {start}")
    return ""


def _too_many(table: ProfileTable, wanted: Sequence[Wanted]) -> str:
    counts = counts_of(table, (w.profile_id for w in wanted))
    for profile_id, number in counts:
        profile = table[profile_id]
        if number > profile.instance_count:
            return f"{number} × {profile} asked for, the card has at most {profile.instance_count}"
    if not within_engine_limits(table, counts):
        special = ", ".join(str(table[p]) for p, _ in counts)
        return f"{special} together need more media engines (decoders, JPEG, OFA) than the card has"
    return ""


def _too_large(table: ProfileTable, wanted: Sequence[Wanted]) -> str:
    counts = Counter(w.profile_id for w in wanted)
    need = sum(table[p].size * n for p, n in counts.items())
    if need <= table.units:
        return ""
    return f"{_sum(table, counts)} need {need} of {table.units} memory units"


def _blocked(table: ProfileTable, wanted: Sequence[Wanted]) -> str:
    """Place as much as fits, largest first, and say which units are left and whom they cannot serve."""
    occupied = 0
    for w in wanted:
        placement = table[w.profile_id].placement_at(w.start) if w.start is not None else None
        occupied |= placement.mask if placement else 0
    placed: list[int] = []
    free = sorted((w.profile_id for w in wanted if w.start is None), key=lambda p: (-table[p].size, p))
    for profile_id in free:
        if arrange(table, occupied, counts_of(table, [*placed, profile_id])) is None:
            return _no_start(table, occupied, placed, table[profile_id])
        placed.append(profile_id)
    raise AssertionError("the layout fits")


def _no_start(table: ProfileTable, occupied: int, placed: list[int], profile: GpuInstanceProfile) -> str:
    counts = counts_of(table, placed)
    arrangement = arrange(table, occupied, counts)
    starts = zip(counts, arrangement.starts if arrangement else (), strict=True)
    for (profile_id, _), at in starts:
        for start in at:
            placement = table[profile_id].placement_at(start)
            occupied |= placement.mask if placement else 0
    beside = f" beside {_sum(table, Counter(placed))}" if placed else " beside the pinned slices"
    possible = ", ".join(str(p.start) for p in profile.placements)
    return (
        f"{_units(table.units, occupied)} leave no start for {profile}{beside} (it needs {profile.size} units from "
        f"{'one of ' if len(profile.placements) > 1 else ''}{possible})"
    )


def _units(units: int, occupied: int) -> str:
    """``free units 0, 1 | 5``: runs of free units, separated where something lies between them."""
    runs: list[list[str]] = [[]]
    for unit in range(units):
        if occupied >> unit & 1:
            runs.append([])
        else:
            runs[-1].append(str(unit))
    text = " | ".join(", ".join(run) for run in runs if run)
    return f"free units {text}" if text else "no free units"


def _sum(table: ProfileTable, counts: Counter[int]) -> str:
    ordered = sorted(counts.items(), key=lambda c: (-table[c[0]].size, c[0]))
    return " + ".join(f"{number} × {table[profile_id]}" for profile_id, number in ordered)


def _remedy(table: ProfileTable, wanted: Sequence[Wanted]) -> str:
    """The largest part of the layout that fits when slices of one profile are left out."""
    counts = Counter(w.profile_id for w in wanted)
    for profile_id in sorted(counts, key=lambda p: (table[p].size, p)):
        for number in range(counts[profile_id] - 1, -1, -1):
            fewer = [p for p in counts.elements() if p != profile_id] + [profile_id] * number
            if fewer and feasible(table, counts_of(table, fewer)):
                others = f"with {number} × {table[profile_id]}" if number else f"without {table[profile_id]}"
                return f"it fits {others}"
    return f"a full card holds for instance {table.full.instance_count} × {table.full}"
