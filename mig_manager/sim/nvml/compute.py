"""Functions on compute instances."""

from __future__ import annotations

import ctypes

from mig_manager.geometry.profiles import ComputeProfile, GpuInstanceProfile
from mig_manager.sim.model import compute
from mig_manager.sim.model.devices import compute_name
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
    put,
    structure,
    uint_out,
    versioned,
)
from mig_manager.sim.nvml.instances import is_graphics_capable, read_placement, write_placements

BODIES = Bodies()
_VERSIONS: dict[int, type[ctypes.Structure]] = {
    2: structures.ComputeInstanceProfileInfoV2,
    3: structures.ComputeInstanceProfileInfoV3,
}
_GRAPHICS_CAPABLE = 1  # NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX


@BODIES.named("nvmlGpuInstanceGetComputeInstanceProfileInfo")
def _profile(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, instance: Argument, constant: Argument, engines: Argument, info: Argument
) -> None:
    key, out = handles.gpu_instance(instance), structure(info, structures.ComputeInstanceProfileInfo)
    _fill(out, *compute.profile_by_constant(store, key, number(constant), number(engines)))


@BODIES.named("nvmlGpuInstanceGetComputeInstanceProfileInfoV")
def _profile_v(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, instance: Argument, constant: Argument, engines: Argument, info: Argument
) -> None:
    key = handles.gpu_instance(instance)
    out = versioned(info, _VERSIONS)
    profile, found = compute.profile_by_constant(store, key, number(constant), number(engines))
    _fill(out, profile, found)
    out.name = f"MIG {compute_name(profile, found.slice_count)}".encode()
    if isinstance(out, structures.ComputeInstanceProfileInfoV3):
        out.capabilities = _GRAPHICS_CAPABLE if is_graphics_capable(profile) else 0


@BODIES.named("nvmlGpuInstanceGetComputeInstancePossiblePlacements")
def _placements(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, instance: Argument, profile_id: Argument, placements: Argument, count: Argument
) -> None:
    key, out = handles.gpu_instance(instance), uint_out(count)
    write_placements(placements, out, compute.possible_placements(store, key, number(profile_id)))


@BODIES.named("nvmlGpuInstanceGetComputeInstanceRemainingCapacity")
def _capacity(store: Store, handles: Handles, instance: Argument, profile_id: Argument, count: Argument) -> None:
    key, out = handles.gpu_instance(instance), uint_out(count)
    put(out, compute.remaining_capacity(store, key, number(profile_id)))


@BODIES.named("nvmlGpuInstanceCreateComputeInstance")
def _create(store: Store, handles: Handles, instance: Argument, profile_id: Argument, created: Argument) -> None:
    key, out = handles.gpu_instance(instance), handle_out(created)
    handles.write(out, [compute.create(store, key, number(profile_id))])


@BODIES.named("nvmlGpuInstanceCreateComputeInstanceWithPlacement")
def _create_at(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, instance: Argument, profile_id: Argument, placement: Argument, created: Argument
) -> None:
    key, out, where = handles.gpu_instance(instance), handle_out(created), read_placement(placement)
    handles.write(out, [compute.create(store, key, number(profile_id), where)])


@BODIES.named("nvmlComputeInstanceDestroy")
def _destroy(store: Store, handles: Handles, instance: Argument) -> None:
    compute.destroy(store, handles.compute_instance(instance))


@BODIES.named("nvmlGpuInstanceGetComputeInstances")
def _list(  # noqa: PLR0913, PLR0917 - the arguments of the C function
    store: Store, handles: Handles, instance: Argument, profile_id: Argument, array: Argument, count: Argument
) -> None:
    key, out, target = handles.gpu_instance(instance), uint_out(count), handle_out(array)
    found = compute.listed(store, key, number(profile_id))
    handles.write(target, found)
    put(out, len(found))


@BODIES.named("nvmlGpuInstanceGetComputeInstanceById")
def _by_id(store: Store, handles: Handles, instance: Argument, compute_id: Argument, found: Argument) -> None:
    key, out = handles.gpu_instance(instance), handle_out(found)
    handles.write(out, [compute.by_id(store, key, number(compute_id))])


@BODIES.named("nvmlComputeInstanceGetInfo_v2")
def _info(store: Store, handles: Handles, instance: Argument, info: Argument) -> None:
    key, out = handles.compute_instance(instance), structure(info, structures.ComputeInstanceInfo)
    device, gpu_instance, state = compute.info(store, key)
    out.device = handles.address(device)
    out.gpuInstance = handles.address(gpu_instance)
    out.id, out.profileId = state.id, state.profile_id
    out.placement.start, out.placement.size = state.start, state.size


def _fill(out: Structure, profile: GpuInstanceProfile, found: ComputeProfile) -> None:
    out.id = found.id
    out.sliceCount = found.slice_count
    out.instanceCount = found.instance_count
    out.multiprocessorCount = figure(found.multiprocessors)
    out.sharedCopyEngineCount = figure(profile.engines.copy)
    out.sharedDecoderCount = figure(profile.engines.decoder)
    out.sharedEncoderCount = figure(profile.engines.encoder)
    out.sharedJpegCount = figure(profile.engines.jpeg)
    out.sharedOfaCount = figure(profile.engines.ofa)
