"""Functions on GPU instances."""

from __future__ import annotations

import ctypes

from mig_manager.geometry.profiles import GpuInstanceProfile, Placement
from mig_manager.sim.model import instances
from mig_manager.sim.model.hardware import figure
from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml import structures
from mig_manager.sim.nvml.convert import (
    Argument,
    Bodies,
    Handles,
    Structure,
    handle_out,
    number,
    pointer,
    put,
    structure,
    uint_out,
    versioned,
)

BODIES = Bodies()
_VERSIONS: dict[int, type[ctypes.Structure]] = {
    2: structures.GpuInstanceProfileInfoV2,
    3: structures.GpuInstanceProfileInfoV3,
}
_GRAPHICS_CAPABLE = 2  # NVML_GPU_INSTANCE_PROFILE_CAPS_GFX; peer-to-peer, the bit before it, was seen on no card


@BODIES.named("nvmlDeviceGetGpuInstanceProfileInfo")
def _profile(store: Store, handles: Handles, device: Argument, constant: Argument, info: Argument) -> None:
    key, out = handles.device(device), structure(info, structures.GpuInstanceProfileInfo)
    _fill(out, instances.profile_by_constant(store, key, number(constant)))


@BODIES.named("nvmlDeviceGetGpuInstanceProfileInfoV")
def _profile_v(store: Store, handles: Handles, device: Argument, constant: Argument, info: Argument) -> None:
    key, out = handles.device(device), versioned(info, _VERSIONS)
    _fill_named(out, instances.profile_by_constant(store, key, number(constant)))


@BODIES.named("nvmlDeviceGetGpuInstanceProfileInfoByIdV")
def _profile_by_id(store: Store, handles: Handles, device: Argument, profile_id: Argument, info: Argument) -> None:
    key, out = handles.device(device), versioned(info, _VERSIONS)
    _fill_named(out, instances.profile_by_id(store, key, number(profile_id)))


@BODIES.named("nvmlDeviceGetGpuInstancePossiblePlacements_v2")
def _placements(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, device: Argument, profile_id: Argument, placements: Argument, count: Argument
) -> None:
    key, out = handles.device(device), uint_out(count)
    write_placements(placements, out, instances.possible_placements(store, key, number(profile_id)))


@BODIES.named("nvmlDeviceGetGpuInstanceRemainingCapacity")
def _capacity(store: Store, handles: Handles, device: Argument, profile_id: Argument, count: Argument) -> None:
    key, out = handles.device(device), uint_out(count)
    put(out, instances.remaining_capacity(store, key, number(profile_id)))


@BODIES.named("nvmlDeviceCreateGpuInstance")
def _create(store: Store, handles: Handles, device: Argument, profile_id: Argument, instance: Argument) -> None:
    key, out = handles.device(device), handle_out(instance)
    handles.write(out, [instances.create(store, key, number(profile_id))])


@BODIES.named("nvmlDeviceCreateGpuInstanceWithPlacement")
def _create_at(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, device: Argument, profile_id: Argument, placement: Argument, instance: Argument
) -> None:
    key, out, where = handles.device(device), handle_out(instance), read_placement(placement)
    handles.write(out, [instances.create(store, key, number(profile_id), where)])


@BODIES.named("nvmlGpuInstanceDestroy")
def _destroy(store: Store, handles: Handles, instance: Argument) -> None:
    instances.destroy(store, handles.gpu_instance(instance))


@BODIES.named("nvmlDeviceGetGpuInstances")
def _list(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, device: Argument, profile_id: Argument, array: Argument, count: Argument
) -> None:
    key, out, target = handles.device(device), uint_out(count), handle_out(array)
    found = instances.listed(store, key, number(profile_id))
    handles.write(target, found)
    put(out, len(found))


@BODIES.named("nvmlDeviceGetGpuInstanceById")
def _by_id(store: Store, handles: Handles, device: Argument, instance_id: Argument, instance: Argument) -> None:
    key, out = handles.device(device), handle_out(instance)
    handles.write(out, [instances.by_id(store, key, number(instance_id))])


@BODIES.named("nvmlGpuInstanceGetInfo")
def _info(store: Store, handles: Handles, instance: Argument, info: Argument) -> None:
    key, out = handles.gpu_instance(instance), structure(info, structures.GpuInstanceInfo)
    device, state = instances.info(store, key)
    out.device = handles.address(device)
    out.id, out.profileId = state.id, state.profile_id
    out.placement.start, out.placement.size = state.start, state.size


def is_graphics_capable(profile: GpuInstanceProfile) -> bool:
    """Whether programs can draw on its instances."""
    return profile.attributes == "+gfx"


def read_placement(argument: Argument) -> Placement:
    """A placement; INVALID_ARGUMENT for NULL."""
    found = structure(argument, structures.Placement)
    return Placement(found.start, found.size)


def write_placements(array: Argument, count: Structure, placements: tuple[Placement, ...]) -> None:
    """Write placements and their number; NULL asks for the number alone. The number that came in means nothing."""
    if array is not None:
        target = pointer(array, structures.Placement)
        for index, placement in enumerate(placements):
            target[index].start, target[index].size = placement.start, placement.size
    put(count, len(placements))


def _fill_named(out: Structure, profile: GpuInstanceProfile) -> None:
    _fill(out, profile)
    out.name = f"MIG {profile.name}".encode()
    if isinstance(out, structures.GpuInstanceProfileInfoV3):
        out.capabilities = _GRAPHICS_CAPABLE if is_graphics_capable(profile) else 0


def _fill(out: Structure, profile: GpuInstanceProfile) -> None:
    out.id = profile.id
    if not isinstance(out, structures.GpuInstanceProfileInfoV3):
        out.isP2pSupported = 0
    out.sliceCount = profile.slice_count
    out.instanceCount = profile.instance_count
    out.multiprocessorCount = figure(profile.multiprocessors)
    out.copyEngineCount = figure(profile.engines.copy)
    out.decoderCount = figure(profile.engines.decoder)
    out.encoderCount = figure(profile.engines.encoder)
    out.jpegCount = figure(profile.engines.jpeg)
    out.ofaCount = figure(profile.engines.ofa)
    out.memorySizeMB = figure(profile.memory_mib)
