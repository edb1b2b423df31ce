"""Where instances fit: the rules of the grid, of the media engines, and the driver's own choice of place.

Pure functions on profile tables and what is there. Sources: NVIDIA MIG User Guide, "GPU Instance Profiles" and
"Partitioning"; nvml.h on the media profiles; NVIDIA's open-gpu-kernel-modules for the ids. How the driver chooses a
place is not published; the rule here (leave the most possible placements) is a model that reproduces every
creation log found with a current driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from mig_manager.geometry.profiles import GpuInstanceProfile, Placement, ProfileTable

_ALL_MEDIA = "+me.all"
_NO_MEDIA = "-me"


def occupied_units(placements: Iterable[Placement]) -> int:
    """The units taken, as a bit set."""
    return sum(p.mask for p in placements)


def free_placements(possible: Iterable[Placement], occupied: int) -> tuple[Placement, ...]:
    """Those of the possible placements that are still free."""
    return tuple(p for p in possible if not p.mask & occupied)


def capacity(possible: Iterable[Placement], occupied: int) -> int:
    """How many instances of one profile fit at most into what is free, if nothing else is created.

    ``possible`` are its placements in ascending order.
    """
    count = 0
    for placement in possible:  # they are equally large, so from the lowest up is optimal
        if not placement.mask & occupied:
            occupied |= placement.mask
            count += 1
    return count


def engines_allow(profile: GpuInstanceProfile, present: Sequence[GpuInstanceProfile]) -> bool:
    """Whether the media engines left suffice; placements alone limit everything else.

    A card has one OFA, so at most one instance has a media-extension profile. A profile with all media engines leaves
    none: beside it only profiles without exist.
    """
    if has_extension(profile) and any(has_extension(p) for p in present):
        return False
    if profile.attributes == _ALL_MEDIA:
        return all(p.attributes == _NO_MEDIA for p in present)
    return profile.attributes == _NO_MEDIA or all(p.attributes != _ALL_MEDIA for p in present)


def default_placement(free: Sequence[Placement], every: Sequence[Sequence[Placement]], occupied: int) -> Placement:
    """The place the driver chooses: the one that leaves most possible placements of all profiles, the lowest of equals.

    ``every`` holds the possible placements of each profile. ``free`` is in ascending order and not empty.
    """

    def left(placement: Placement) -> int:
        return sum(len(free_placements(possible, occupied | placement.mask)) for possible in every)

    return max(free, key=left)


def gpu_instance_id(table: ProfileTable, placement: Placement, *, half_swapped: bool) -> int:
    """The id of the GPU instance at that place: 0 is the whole card, 1 and 2 its halves, then quarters and eighths.

    On some dies the halves are numbered the other way round, so the id must never be derived from the start.
    """
    return _ids(table.units, half_swapped)[placement]


@cache
def _ids(units: int, half_swapped: bool) -> dict[Placement, int]:
    counts = [2**level for level in range(units.bit_length()) if units % 2**level == 0]
    places = [Placement(index * (units // count), units // count) for count in counts for index in range(count)]
    ids = {place: number for number, place in enumerate(places)}
    if not half_swapped:
        return ids
    return {p: (ids[Placement((p.start + units // 2) % units, p.size)] if p.size < units else 0) for p in ids}


def has_extension(profile: GpuInstanceProfile) -> bool:
    """Whether it is one of the media-extension profiles, which own the card's OFA."""
    return profile.attributes.startswith("+me")
