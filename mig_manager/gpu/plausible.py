"""Whether what NVML says makes sense: nothing is planned or destroyed on answers that contradict each other.

A driver of another age, a library with a defect or a card that is falling apart can say anything. What is checked here
holds on every card by definition (NVIDIA MIG User Guide, nvml.h): instances lie where their profile may lie, never over
each other, and numbers that name something name one thing. Limits on counts are far beyond any hardware; they keep a
number that is none from filling the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import Card, GpuInstance
from mig_manager.gpu.port import NotUnderstoodError

MOST_CARDS = 64
MOST_UNITS = 64
MOST_MIG_DEVICES = 64
MOST_PLACEMENTS = 64
MOST_INSTANCES = 64
MOST_PROCESSES = 65_536
_MOST_SLICES = 9  # a slice name has one digit for them
_UNNAMED = ""  # a compute instance that is no MIG device yet


def limited(act: str, what: str, number: int, most: int) -> int:
    """The number; NotUnderstoodError when it is more than there can be."""
    if not 0 <= number <= most:
        raise NotUnderstoodError(act, f"{number} {what}")
    return int(number)


def mode(act: str, number: int) -> bool:
    """Whether MIG is on; nvml.h knows NVML_DEVICE_MIG_DISABLE (0) and NVML_DEVICE_MIG_ENABLE (1)."""
    if number not in (0, 1):
        raise NotUnderstoodError(act, f"MIG mode {number}")
    return bool(number)


def check_table(act: str, table: ProfileTable) -> None:
    """The profiles of a card can be told apart, and each has places of one size."""
    _unlike(act, "GPU instance profile id", (p.id for p in table))
    for profile in table:
        if not 0 < profile.slice_count <= _MOST_SLICES:
            raise NotUnderstoodError(act, f"profile {profile.id} has {profile.slice_count} slices")
        limited(act, f"instances of profile {profile.id}", profile.instance_count, MOST_INSTANCES)
        sizes = {placement.size for placement in profile.placements}
        if len(sizes) != 1 or not all(_inside(placement, MOST_UNITS) for placement in profile.placements):
            places = ", ".join(map(str, profile.placements))
            raise NotUnderstoodError(act, f"profile {profile.id} can lie at {places}")


def check_instances(act: str, table: ProfileTable, instances: Collection[GpuInstance]) -> None:
    """Every instance lies where its profile may lie, none lies over another, and ids name one instance."""
    _unlike(act, "GPU instance id", (instance.id for instance in instances))
    occupied = 0
    for instance in instances:
        profile = table.get(instance.profile_id)
        what = f"GPU instance {instance.id} of profile {instance.profile_id} at {instance.placement}"
        if profile is None or instance.placement not in profile.placements:
            raise NotUnderstoodError(act, f"{what}, where the card has no such profile or place")
        if instance.placement.mask & occupied:
            raise NotUnderstoodError(act, f"{what}, over another instance")
        occupied |= instance.placement.mask
        _check_compute(act, instance, profile.slice_count)


def check_cards(cards: Collection[Card]) -> None:
    """No two MIG devices of the machine have the same UUID."""
    computes = (compute for card in cards for instance in card.instances for compute in instance.compute)
    _unlike("reading all GPUs", "MIG UUID", (c.uuid for c in computes if c.uuid != _UNNAMED))


def check_uuids(act: str, uuids: Collection[str]) -> None:
    """Every card has a UUID of its own."""
    for uuid in uuids:
        if not uuid or not uuid.isprintable():
            raise NotUnderstoodError(act, f"a GPU has the UUID {uuid!r}")
    _unlike(act, "GPU UUID", uuids)


def _check_compute(act: str, instance: GpuInstance, slices: int) -> None:
    what = f"compute instance id of GPU instance {instance.id}"
    _unlike(act, what, (compute.id for compute in instance.compute))
    occupied = 0
    for compute in instance.compute:
        if not _inside(compute.placement, slices) or compute.placement.mask & occupied:
            lying = ", ".join(str(c.placement) for c in instance.compute)
            raise NotUnderstoodError(act, f"GPU instance {instance.id} has compute instances at {lying}")
        occupied |= compute.placement.mask


def _inside(placement: Placement, units: int) -> bool:
    return placement.size > 0 and placement.start >= 0 and placement.start + placement.size <= units


def _unlike(act: str, what: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise NotUnderstoodError(act, f"the {what} {value} is there twice")
        seen.add(value)
