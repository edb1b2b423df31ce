"""GPU instances, compute instances and processes of one card, through NVML handles that live for one call.

GPU instances are enumerated by profile, not through MIG device handles: one without a compute instance is no MIG
device, and a tool that overlooks it finds the card full for no visible reason.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pynvml

from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import ComputeInstance, GpuInstance
from mig_manager.gpu import plausible
from mig_manager.gpu.discovery import Device, Handle, Structure, lenient, printable
from mig_manager.gpu.port import NotSupportedError, NotUnderstoodError, Process
from mig_manager.gpu.process_lists import listed_processes
from mig_manager.gpu.translate import doing

_MOST_CONSTANTS = 64  # as in discovery; nvml.h 13.5 has 9
_MOST_INSTANCES = plausible.MOST_INSTANCES  # room in lists, whatever a profile's count says: some understate it (A30)
_NO_MEMORY = 0xFFFFFFFFFFFFFFFF  # nvml.h, NVML_VALUE_NOT_AVAILABLE: the driver does not know how much
_NO_INSTANCE = 0xFFFFFFFF  # nvml.h: the process uses no GPU (compute) instance


@dataclass(frozen=True, slots=True)
class LiveComputeProfile:
    """A compute instance profile as an existing GPU instance tells it."""

    id: int
    slice_count: int
    instance_count: int


class ComputeProfiles:
    """Compute instance profiles by card and GPU instance profile, each asked once in a session."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[LiveComputeProfile, ...]] = {}

    def of(self, device: Device, gpu_instance: Handle, profile_id: int) -> tuple[LiveComputeProfile, ...]:
        """Every compute instance profile of that GPU instance, lowest constant first."""
        key = (device.uuid, profile_id)
        if key not in self._known:
            self._known[key] = tuple(_compute_profiles(gpu_instance))
        return self._known[key]


def read_instances(device: Device, table: ProfileTable, compute: ComputeProfiles) -> tuple[GpuInstance, ...]:
    """Every GPU instance with its compute instances, by placement; read anew once if they change meanwhile.

    NotUnderstoodError for what cannot be on a card.
    """
    act = f"reading the instances of {device.label}"
    with doing(act):
        try:
            return _instances(act, device, table, compute)
        except (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotFound, NotUnderstoodError):
            # Somebody made a handle stale, or a list that was read before no longer fits one that was read after.
            return _instances(act, device, table, compute)


def create_gpu_instance(device: Device, profile_id: int, placement: Placement) -> int:
    """Create a GPU instance at exactly ``placement`` and return its id; NVMLError as NVML reports it."""
    where = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
    # By reference: by value it would reach the library as an address and end this process.
    handle = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device.handle, profile_id, ctypes.byref(where))
    return int(pynvml.nvmlGpuInstanceGetInfo(handle).id)


def destroy_gpu_instance(device: Device, gpu_instance: int, seen: Collection[GpuInstance]) -> None:
    """Destroy a GPU instance that is what was ``seen`` last; NVMLError as NVML reports it."""
    _with_fresh_handle(lambda: gpu_instance_handle(device, gpu_instance, seen), pynvml.nvmlGpuInstanceDestroy)


def create_compute_instance(
    device: Device,
    gpu_instance: int,
    seen: Collection[GpuInstance],
    placement: Placement,
    compute: ComputeProfiles,
) -> int:
    """Create a compute instance at exactly ``placement`` and return its id; NVMLError as NVML reports it.

    Of two profiles of the same width the one with the lower constant is meant: the other is a variant that cannot
    always be created (NVIDIA dra-driver issue 1480).
    """
    handle = gpu_instance_handle(device, gpu_instance, seen)
    profile_id = pynvml.nvmlGpuInstanceGetInfo(handle).profileId
    fitting = [p for p in compute.of(device, handle, profile_id) if p.slice_count == placement.size]
    if not fitting:
        raise NotSupportedError(
            f"choosing a compute instance profile on {device.label}",
            f"GPU instance {gpu_instance} has no compute instances of {placement.size} slices",
            pynvml.NVML_ERROR_NOT_SUPPORTED,
        )
    where = pynvml.c_nvmlComputeInstancePlacement_t(placement.start, placement.size)
    created = pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(handle, fitting[0].id, ctypes.byref(where))
    return int(pynvml.nvmlComputeInstanceGetInfo(created).id)


def destroy_compute_instance(
    device: Device, gpu_instance: int, seen: Collection[GpuInstance], compute_instance: int
) -> None:
    """Destroy a compute instance that is what was ``seen`` last; NVMLError as NVML reports it."""
    inside = next((instance.compute for instance in seen if instance.id == gpu_instance), ())
    expected = next((compute for compute in inside if compute.id == compute_instance), None)

    def fresh() -> Handle:
        instance = gpu_instance_handle(device, gpu_instance, seen)
        handle = pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, compute_instance)
        if expected is not None:
            info = pynvml.nvmlComputeInstanceGetInfo(handle)
            if (info.id, _place(info)) != (expected.id, expected.placement):
                act = f"opening compute instance {compute_instance} of GPU instance {gpu_instance} on {device.label}"
                raise _another(act, f"{info.id} at {_place(info)}", f"{expected.id} at {expected.placement}")
        return handle

    _with_fresh_handle(fresh, pynvml.nvmlComputeInstanceDestroy)


def gpu_instance_handle(device: Device, gpu_instance: int, seen: Collection[GpuInstance]) -> Handle:
    """The handle of a GPU instance, good until anybody destroys the instance.

    An id says nothing about what it names by now: somebody may have made another instance under it. So the instance
    must be what was ``seen`` under that id when the card was read; NotUnderstoodError otherwise.
    """
    handle = pynvml.nvmlDeviceGetGpuInstanceById(device.handle, gpu_instance)
    expected = next((instance for instance in seen if instance.id == gpu_instance), None)
    if expected is not None:
        info = pynvml.nvmlGpuInstanceGetInfo(handle)
        if (info.id, info.profileId, _place(info)) != (expected.id, expected.profile_id, expected.placement):
            is_now = f"{info.id} of profile {info.profileId} at {_place(info)}"
            was = f"{expected.id} of profile {expected.profile_id} at {expected.placement}"
            raise _another(f"opening GPU instance {gpu_instance} on {device.label}", is_now, was)
    return handle


def read_processes(device: Device, *, mig: bool) -> tuple[Process, ...]:
    """Compute, graphics and MPS processes on the card and, with MIG on, on each of its MIG devices."""
    with doing(f"reading the processes on {device.label}"):
        found: dict[tuple[int, int | None, int | None], Process] = {}
        handles = [(device.handle, None, None), *(_mig_handles(device) if mig else ())]
        for handle, gpu_instance, compute_instance in handles:
            for entry in _entries(device, handle):
                gi, ci = _instance(entry.gpuInstanceId), _instance(entry.computeInstanceId)
                memory = None if entry.usedGpuMemory == _NO_MEMORY else int(entry.usedGpuMemory) >> 20
                process = Process(
                    entry.pid,
                    gpu_instance if gi is None else gi,
                    compute_instance if ci is None else ci,
                    memory,
                )
                found[process.pid, process.gpu_instance, process.compute_instance] = process
    return tuple(sorted(found.values(), key=lambda p: (p.pid, p.gpu_instance or 0, p.compute_instance or 0)))


def _instances(act: str, device: Device, table: ProfileTable, compute: ComputeProfiles) -> tuple[GpuInstance, ...]:
    found: set[GpuInstance] = set()
    handles = [h for p in table for h in _list_gpu_instances(act, device, p.id)]
    uuids = {(gi, ci): _uuid(handle) for handle, gi, ci in _mig_handles(device)} if handles else {}
    for handle in handles:
        info = pynvml.nvmlGpuInstanceGetInfo(handle)
        inside: set[ComputeInstance] = set()
        for profile in compute.of(device, handle, info.profileId):
            for compute_handle in _list_compute_instances(act, handle, profile):
                of = pynvml.nvmlComputeInstanceGetInfo(compute_handle)
                inside.add(ComputeInstance(of.id, _place(of), uuids.get((info.id, of.id), "")))
        found.add(
            GpuInstance(
                id=info.id,
                profile_id=info.profileId,
                placement=_place(info),
                compute=tuple(sorted(inside, key=lambda c: c.placement)),
            )
        )
    instances = tuple(sorted(found, key=lambda g: g.placement))
    plausible.check_instances(act, table, instances)
    return instances


def _list_gpu_instances(act: str, device: Device, profile_id: int) -> list[Handle]:
    array, count = (pynvml.c_nvmlGpuInstance_t * _MOST_INSTANCES)(), ctypes.c_uint(_MOST_INSTANCES)
    pynvml.nvmlDeviceGetGpuInstances(device.handle, profile_id, array, ctypes.byref(count))
    return list(array[: plausible.limited(act, "GPU instances", count.value, _MOST_INSTANCES)])


def _list_compute_instances(act: str, gpu_instance: Handle, profile: LiveComputeProfile) -> list[Handle]:
    array, count = (pynvml.c_nvmlComputeInstance_t * _MOST_INSTANCES)(), ctypes.c_uint(_MOST_INSTANCES)
    pynvml.nvmlGpuInstanceGetComputeInstances(gpu_instance, profile.id, array, ctypes.byref(count))
    return list(array[: plausible.limited(act, "compute instances", count.value, _MOST_INSTANCES)])


def _compute_profiles(gpu_instance: Handle) -> Iterator[LiveComputeProfile]:
    for constant in range(_MOST_CONSTANTS):
        try:
            info = _compute_profile_info(gpu_instance, constant)
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            return
        yield LiveComputeProfile(info.id, info.sliceCount, info.instanceCount)


def _compute_profile_info(gpu_instance: Handle, constant: int) -> Structure:
    shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    try:
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu_instance, constant, shared, version=2)
    except pynvml.NVMLError_FunctionNotFound:  # as with GPU instance profiles on older drivers
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu_instance, constant, shared, version=1)


def _mig_handles(device: Device) -> Iterator[tuple[Handle, int, int]]:
    """Handles of the MIG devices with the ids of their instances; the index range may have gaps."""
    act, told = f"counting the MIG devices of {device.label}", pynvml.nvmlDeviceGetMaxMigDeviceCount(device.handle)
    places = plausible.limited(act, "places for MIG devices", told, plausible.MOST_MIG_DEVICES)
    for index in range(places):
        try:
            handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device.handle, index)
        except pynvml.NVMLError_NotFound:
            continue
        yield handle, pynvml.nvmlDeviceGetGpuInstanceId(handle), pynvml.nvmlDeviceGetComputeInstanceId(handle)


def _uuid(mig_device: Handle) -> str:
    return printable(lenient(lambda: pynvml.nvmlDeviceGetUUID(mig_device)))


def _place(info: Structure) -> Placement:
    return Placement(info.placement.start, info.placement.size)


def _another(act: str, is_now: str, was: str) -> NotUnderstoodError:
    return NotUnderstoodError(act, f"it is now {is_now}, and was {was} a moment ago")


def _with_fresh_handle(fresh: Callable[[], Handle], act: Callable[[Handle], object]) -> None:
    """Call ``act`` on a handle; if somebody made it stale in between, look it up once more."""
    try:
        act(fresh())
    except pynvml.NVMLError_InvalidArgument:
        act(fresh())


def _entries(device: Device, handle: Handle) -> Iterator[Structure]:
    act = f"reading the processes on {device.label}"
    try:
        yield from listed_processes(act, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
    except pynvml.NVMLError_FunctionNotFound:  # drivers before R510
        yield from listed_processes(act, "nvmlDeviceGetComputeRunningProcesses_v2", handle)
    for other in ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"):
        try:
            yield from listed_processes(act, other, handle)
        except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NotSupported):
            continue  # a card or driver without graphics or MPS has no such processes


def _instance(of: int) -> int | None:
    return None if of == _NO_INSTANCE else of
