"""What a layout entry means on one card: slice names become that card's profiles.

Profile ids mean different things on different grids and names differ by reported memory, so nothing is resolved
once for a node; each card answers for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import SliceRequest
from mig_manager.geometry.names import SliceName, memory_eighths, name_gb, same_memory
from mig_manager.geometry.profiles import ComputeProfile, GpuInstanceProfile, Placement, ProfileTable


@dataclass(frozen=True, slots=True)
class Wanted:
    """One GPU instance that a layout wants: its profile, its compute instances (widths, widest first), its pin."""

    profile_id: int
    compute: tuple[int, ...]
    start: int | None = None


@dataclass(frozen=True, slots=True)
class WantedLayout:
    """Everything that an entry wants of a card; ``fill`` takes what is left, as often as it fits."""

    slices: tuple[Wanted, ...]
    fill: Wanted | None = None


def resolve(requests: Sequence[SliceRequest], table: ProfileTable, total_gb: int) -> WantedLayout:
    """Turn slice requests into wanted instances on a card with that table and memory (GB as names count it).

    Raises LayoutError: ProfileNotOnGPU, ComputeDoesNotFit or InvalidPlacement, with ``slices[i]`` as path.
    """
    slices: list[Wanted] = []
    fill: Wanted | None = None
    shared: dict[int, list[int]] = {}
    for index, request in enumerate(requests):
        try:
            profile = find_profile(request.slice, table, total_gb, double_memory=request.double_memory)
            if request.slice.compute is not None:
                shared.setdefault(profile.id, []).extend(_widths(request, profile))
                continue
            wanted = _wanted(request, profile)
        except LayoutError as error:
            raise error.at(f"slices[{index}]") from None
        if request.count == "max":
            fill = wanted
        else:
            slices.extend([wanted] * request.count)
    for profile_id, widths in shared.items():
        slices.extend(Wanted(profile_id, compute) for compute in _pack(table[profile_id], widths))
    return WantedLayout(tuple(slices), fill)


def find_profile(
    name: SliceName, table: ProfileTable, total_gb: int, *, double_memory: bool = False
) -> GpuInstanceProfile:
    """The profile that ``name`` means on this card.

    A name with memory must be the card's own, give or take the small differences in reported memory; a shape means
    the profile with the least memory, or with ``double_memory`` the one with twice as much.
    """
    alike = [p for p in table if p.slice_count == name.gpu and p.attributes == name.attributes]
    if name.memory_gb is not None:
        found = [p for p in alike if p.name.memory_gb == name.memory_gb]
        found = found or [p for p in alike if same_memory(name.memory_gb, _eighths(p, total_gb), total_gb)]
    elif alike:
        least = min(_eighths(p, total_gb) for p in alike)
        found = [p for p in alike if _eighths(p, total_gb) == (2 * least if double_memory else least)]
    else:
        found = []
    if found:
        return min(found, key=lambda p: p.id)
    wanted = f"{name.instance} with double memory" if double_memory else str(name.instance)
    raise LayoutError(
        "ProfileNotOnGPU", f"this card has no profile {wanted}", f"it offers {', '.join(str(p) for p in table)}"
    )


@lru_cache(maxsize=4096)
def place_compute(
    profiles: tuple[ComputeProfile, ...], widths: tuple[int, ...], occupied: int = 0
) -> tuple[Placement, ...] | None:
    """Places for compute instances of these widths (widest first) around what is occupied; ``None`` if there are none.

    Placements are in compute slices of the GPU instance. The first arrangement with the lowest starts is taken.
    """
    if not widths:
        return ()
    width, rest = widths[0], widths[1:]
    profile = min((p for p in profiles if p.slice_count == width), key=lambda p: p.id, default=None)
    for placement in profile.placements if profile else ():
        if not placement.mask & occupied:
            others = place_compute(profiles, rest, occupied | placement.mask)
            if others is not None:
                return (placement, *others)
    return None


def _eighths(profile: GpuInstanceProfile, total_gb: int) -> int:
    if profile.memory_mib is not None:
        # An integrated GPU owns no memory to have a share of; profiles are compared all the same.
        return memory_eighths(profile.memory_mib, total_gb * 1024) if total_gb else profile.memory_mib
    named = profile.name.memory_gb
    return next((e for e in range(1, 9) if name_gb(e, total_gb) == named), 0)


def _wanted(request: SliceRequest, profile: GpuInstanceProfile) -> Wanted:
    if request.start is not None and profile.placement_at(request.start) is None:
        raise LayoutError(
            "InvalidPlacement",
            f"{profile} cannot start at {request.start}",
            f"it can start at {_list(p.start for p in profile.placements)}",
        )
    widths = (profile.slice_count,) if request.compute is None else tuple(sorted(request.compute, reverse=True))
    for width in widths:
        _check_width(width, profile)
    if place_compute(profile.compute, widths) is None:
        asked = ", ".join(f"{w}c" for w in widths)
        raise LayoutError(
            "ComputeDoesNotFit",
            f"compute instances {asked} do not fit into a {profile}",
            f"it has {profile.slice_count} compute slices",
        )
    return Wanted(profile.id, widths, request.start)


def _widths(request: SliceRequest, profile: GpuInstanceProfile) -> list[int]:
    width = request.slice.compute
    if width is None or request.count == "max" or request.start is not None or request.compute is not None:
        raise LayoutError(
            "InvalidSlice",
            f"{request.slice} names a compute instance, so it takes a plain count and neither start, compute nor max",
            f"write slice: {request.slice.instance} with compute: [...] instead",
        )
    _check_width(width, profile)
    return [width] * request.count


def _check_width(width: int, profile: GpuInstanceProfile) -> None:
    if profile.compute_of_width(width) is None:
        raise LayoutError(
            "ComputeDoesNotFit",
            f"a {profile} has no compute instance of {width} slices",
            f"it has {_list(f'{c.slice_count}c' for c in profile.compute)}",
        )


def _pack(profile: GpuInstanceProfile, widths: list[int]) -> list[tuple[int, ...]]:
    """Share GPU instances: fill one until the next compute instance does not fit, then open another.

    Widest first, as mig-parted does it, so that its files mean the same here.
    """
    packed: list[tuple[int, ...]] = []
    current: tuple[int, ...] = ()
    for width in sorted(widths, reverse=True):
        if current and place_compute(profile.compute, (*current, width)) is None:
            packed.append(current)
            current = ()
        current = (*current, width)
    return [*packed, current] if current else packed


def _list(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)
