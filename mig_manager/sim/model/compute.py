"""Compute instances inside a GPU instance, as the NVML functions of that name do.

They are placed in the compute slices of their GPU instance, share its memory and media engines, and are what programs
run on: a GPU instance without one is not a device. Errors are those that nvml.h documents.
"""

from __future__ import annotations

from itertools import count

from mig_manager.geometry.profiles import ComputeProfile, GpuInstanceProfile, Placement
from mig_manager.sim.model import lookup
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.keys import ComputeInstanceKey, GpuInstanceKey, MigDeviceKey
from mig_manager.sim.model.placing import capacity, default_placement, free_placements, occupied_units
from mig_manager.sim.model.state import CardState, ComputeInstanceState, GpuInstanceState, MachineState
from mig_manager.sim.model.store import Store

PROFILE_CONSTANTS = 0x9
ENGINE_PROFILES = 1


def profile_by_constant(
    store: Store, key: GpuInstanceKey, constant: int, engine_profile: int
) -> tuple[GpuInstanceProfile, ComputeProfile]:
    """A profile by its constant, which equals its id on every known card; with it that of the GPU instance."""
    state = store.read()
    card, instance = lookup.gpu_instance(state, key)
    if not 0 <= constant < PROFILE_CONSTANTS or not 0 <= engine_profile < ENGINE_PROFILES:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    profile = lookup.profile_of(card, instance)
    found = next((c for c in profile.compute if c.id == constant), None)
    if found is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    lookup.require_root(state)
    return profile, found


def possible_placements(store: Store, key: GpuInstanceKey, profile_id: int) -> tuple[Placement, ...]:
    """All placements of a profile, occupied or not, in compute slices of the GPU instance."""
    state = store.read()
    _, _, profile = _with_profile(state, key, profile_id)
    lookup.require_root(state)
    return profile.placements


def remaining_capacity(store: Store, key: GpuInstanceKey, profile_id: int) -> int:
    """How many more compute instances of that profile alone would fit."""
    state = store.read()
    _, instance, profile = _with_profile(state, key, profile_id)
    lookup.require_root(state)
    return capacity(profile.placements, _occupied(instance))


def create(
    store: Store, key: GpuInstanceKey, profile_id: int, placement: Placement | None = None
) -> ComputeInstanceKey:
    """Create a compute instance, where the driver likes or at ``placement``, and return its key."""
    with store.change() as state:
        card, instance, profile = _with_profile(state, key, profile_id)
        if placement is not None and placement not in profile.placements:
            raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
        lookup.require_root(state)
        return lookup.compute_key(card, instance, place(state, card, instance, profile, placement))


def place(
    state: MachineState,
    card: CardState,
    instance: GpuInstanceState,
    profile: ComputeProfile,
    placement: Placement | None,
) -> ComputeInstanceState:
    """Add a compute instance with the lowest free id; INSUFFICIENT_RESOURCES without room."""
    occupied = _occupied(instance)
    free = free_placements(profile.placements, occupied)
    if placement is not None:
        free = tuple(p for p in free if p == placement)
    if not free:
        raise NvmlFault(NvmlCode.INSUFFICIENT_RESOURCES)
    every = [c.placements for c in lookup.profile_of(card, instance).compute]
    chosen = default_placement(free, every, occupied)
    compute = ComputeInstanceState(
        id=next(n for n in count() if instance.compute_instance(n) is None),
        profile_id=profile.id,
        start=chosen.start,
        size=chosen.size,
        generation=state.next_generation(),
    )
    instance.compute.append(compute)
    instance.compute.sort(key=lambda c: c.id)
    return compute


def destroy(store: Store, key: ComputeInstanceKey) -> None:
    """Destroy a compute instance; IN_USE while anybody uses it."""
    with store.change() as state:
        card, instance, compute = lookup.compute_instance(state, key)
        lookup.require_root(state)
        if card.clients_of(instance.id, compute.id):
            raise NvmlFault(NvmlCode.IN_USE)
        instance.compute.remove(compute)


def listed(store: Store, key: GpuInstanceKey, profile_id: int) -> list[ComputeInstanceKey]:
    """The compute instances of that profile."""
    state = store.read()
    card, instance, _ = _with_profile(state, key, profile_id)
    lookup.require_root(state)
    return [lookup.compute_key(card, instance, c) for c in instance.compute if c.profile_id == profile_id]


def by_id(store: Store, key: GpuInstanceKey, compute_id: int) -> ComputeInstanceKey:
    """The compute instance with that id; NOT_FOUND when there is none."""
    state = store.read()
    card, instance = lookup.gpu_instance(state, key)
    lookup.require_root(state)
    compute = instance.compute_instance(compute_id)
    if compute is None:
        raise NvmlFault(NvmlCode.NOT_FOUND)
    return lookup.compute_key(card, instance, compute)


def info(store: Store, key: ComputeInstanceKey) -> tuple[MigDeviceKey, GpuInstanceKey, ComputeInstanceState]:
    """The MIG device, the GPU instance and the particulars of a compute instance."""
    state = store.read()
    card, instance, compute = lookup.compute_instance(state, key)
    lookup.require_root(state)
    return lookup.mig_key(card, instance, compute), lookup.instance_key(card, instance), compute


def _with_profile(
    state: MachineState, key: GpuInstanceKey, profile_id: int
) -> tuple[CardState, GpuInstanceState, ComputeProfile]:
    card, instance = lookup.gpu_instance(state, key)
    profile = next((c for c in lookup.profile_of(card, instance).compute if c.id == profile_id), None)
    if profile is None:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return card, instance, profile


def _occupied(instance: GpuInstanceState) -> int:
    return occupied_units(Placement(c.start, c.size) for c in instance.compute)
