"""GPU instances: profiles, places, creating and destroying, as the NVML functions of that name do.

Checks come in the driver's order: arguments, then whether the card can, then permission, then room. Errors are those
that nvml.h documents for each function.
"""

from __future__ import annotations

from mig_manager.geometry.profiles import GpuInstanceProfile, Placement, ProfileTable
from mig_manager.sim.model import lookup
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.keys import AnyDeviceKey, DeviceKey, GpuInstanceKey
from mig_manager.sim.model.placing import (
    capacity,
    default_placement,
    engines_allow,
    free_placements,
    gpu_instance_id,
    has_extension,
    occupied_units,
)
from mig_manager.sim.model.state import CardState, GpuInstanceState, MachineState
from mig_manager.sim.model.store import Store

PROFILE_CONSTANTS = 0x12
_DOUBLE_MEMORY_CONSTANT = 0x9
_3G, _4G = 3, 4


def profiles(state: MachineState, card: CardState) -> ProfileTable:
    """The profiles that this driver offers on the card; NOT_SUPPORTED without MIG."""
    table = lookup.table_of(card)
    if not state.quirks.no_double_memory:
        return table
    return ProfileTable(table.units, tuple(p for p in table if p.constant != _DOUBLE_MEMORY_CONSTANT))


def profile_by_constant(store: Store, device: AnyDeviceKey, constant: int) -> GpuInstanceProfile:
    """A profile by its constant: INVALID_ARGUMENT past the last constant, NOT_SUPPORTED for a gap."""
    state = store.read()
    card = lookup.physical(state, device)
    if not 0 <= constant < PROFILE_CONSTANTS:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    found = next((p for p in _readable(state, card) if p.constant == constant), None)
    if found is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    lookup.require_root(state)
    return found


def profile_by_id(store: Store, device: AnyDeviceKey, profile_id: int) -> GpuInstanceProfile:
    """A profile by its id: NOT_SUPPORTED for an id that the card does not have."""
    state = store.read()
    found = _readable(state, lookup.physical(state, device)).get(profile_id)
    if found is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    lookup.require_root(state)
    return found


def possible_placements(store: Store, device: AnyDeviceKey, profile_id: int) -> tuple[Placement, ...]:
    """All placements of a profile, occupied or not; also while MIG is off."""
    state = store.read()
    found = profiles(state, lookup.physical(state, device)).get(profile_id)
    if found is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    lookup.require_root(state)
    return found.placements


def remaining_capacity(store: Store, device: AnyDeviceKey, profile_id: int) -> int:
    """How many more instances of that profile alone would fit."""
    state = store.read()
    card, profile = _with_profile(state, device, profile_id)
    lookup.require_root(state)
    if not _allowed(state, card, profile):
        return 0
    room = capacity(profile.placements, _occupied(card))
    return min(room, 1) if has_extension(profile) else room


def create(store: Store, device: AnyDeviceKey, profile_id: int, placement: Placement | None = None) -> GpuInstanceKey:
    """Create a GPU instance, where the driver likes or at ``placement``, and return its key."""
    with store.change() as state:
        card, profile = _with_profile(state, device, profile_id)
        if placement is not None and placement not in profile.placements:
            raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
        lookup.require_root(state)
        return lookup.instance_key(card, place(state, card, profile, placement))


def place(
    state: MachineState, card: CardState, profile: GpuInstanceProfile, placement: Placement | None
) -> GpuInstanceState:
    """Add an instance to the card; INSUFFICIENT_RESOURCES without room or engines.

    IN_USE while processes hold memory of the card as a whole and it has no instance yet: the first one takes the
    memory over.
    """
    if not card.instances and any(c.memory_mib for c in card.clients):
        raise NvmlFault(NvmlCode.IN_USE)
    occupied = _occupied(card)
    free = free_placements(profile.placements, occupied)
    if placement is not None:
        free = tuple(p for p in free if p == placement)
    if not free or not _allowed(state, card, profile):
        raise NvmlFault(NvmlCode.INSUFFICIENT_RESOURCES)
    table = profiles(state, card)
    if state.quirks.first_3g_low and profile.slice_count == _3G:
        chosen = min(free)
    else:
        chosen = default_placement(free, [p.placements for p in table], occupied)
    instance = GpuInstanceState(
        id=gpu_instance_id(table, chosen, half_swapped=card.half_swapped),
        profile_id=profile.id,
        start=chosen.start,
        size=chosen.size,
        generation=state.next_generation(),
    )
    card.instances.append(instance)
    card.instances.sort(key=lambda i: i.id)
    return instance


def destroy(store: Store, key: GpuInstanceKey) -> None:
    """Destroy a GPU instance; IN_USE while it has compute instances or anybody uses it."""
    with store.change() as state:
        card, instance = lookup.gpu_instance(state, key)
        lookup.require_root(state)
        if instance.compute or card.clients_of(instance.id):
            raise NvmlFault(NvmlCode.IN_USE)
        card.instances.remove(instance)


def listed(store: Store, device: AnyDeviceKey, profile_id: int) -> list[GpuInstanceKey]:
    """The GPU instances of that profile."""
    state = store.read()
    card, _ = _with_profile(state, device, profile_id)
    lookup.require_root(state)
    return [lookup.instance_key(card, i) for i in card.instances if i.profile_id == profile_id]


def by_id(store: Store, device: AnyDeviceKey, instance_id: int) -> GpuInstanceKey:
    """The GPU instance with that id; NOT_FOUND when there is none."""
    state = store.read()
    card = lookup.physical(state, device)
    lookup.require_mig(card)
    lookup.require_root(state)
    instance = card.instance(instance_id)
    if instance is None:
        raise NvmlFault(NvmlCode.NOT_FOUND)
    return lookup.instance_key(card, instance)


def info(store: Store, key: GpuInstanceKey) -> tuple[DeviceKey, GpuInstanceState]:
    """The card and the particulars of a GPU instance."""
    state = store.read()
    card, instance = lookup.gpu_instance(state, key)
    lookup.require_root(state)
    return DeviceKey(card.uuid), instance


def _readable(state: MachineState, card: CardState) -> ProfileTable:
    table = profiles(state, card)
    if state.quirks.profile_info_needs_mig and not card.mig_current:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    return table


def _with_profile(state: MachineState, device: AnyDeviceKey, profile_id: int) -> tuple[CardState, GpuInstanceProfile]:
    card = lookup.physical(state, device)
    lookup.require_mig(card)
    profile = profiles(state, card).get(profile_id)
    if profile is None:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return card, profile


def _occupied(card: CardState) -> int:
    return occupied_units(Placement(i.start, i.size) for i in card.instances)


def _allowed(state: MachineState, card: CardState, profile: GpuInstanceProfile) -> bool:
    present = [lookup.profile_of(card, i) for i in card.instances]
    widths = {p.slice_count for p in present} | {profile.slice_count}
    if state.quirks.no_4g_with_3g and {_3G, _4G} <= widths:
        return False
    return engines_allow(profile, present)
