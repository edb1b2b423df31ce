"""Functions on cards and MIG devices."""

from __future__ import annotations

import ctypes

from mig_manager.geometry.cards import NVIDIA_VENDOR_ID
from mig_manager.sim.model import devices
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.hardware import figure
from mig_manager.sim.model.state import ClientKind
from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml import structures
from mig_manager.sim.nvml.convert import (
    Argument,
    Bodies,
    Body,
    Handles,
    handle_out,
    number,
    pointer,
    put,
    string_in,
    string_out,
    structure,
    uint_out,
    versioned,
)

BODIES = Bodies()
_MIB = 1024 * 1024
_NO_INSTANCE = 0xFFFFFFFF
_SCOPES = (0, 1)  # NVML_AFFINITY_SCOPE_NODE and _SOCKET
_ENABLED = 1  # NVML_FEATURE_ENABLED
_ARCHITECTURES = {7: 6, 8: 7, 9: 9, 10: 10, 12: 10}  # NVML_DEVICE_ARCH_* by the major compute capability


@BODIES.named("nvmlDeviceGetCount_v2")
def _count(store: Store, _: Handles, count: Argument) -> None:
    put(uint_out(count), devices.count(store))


@BODIES.named("nvmlDeviceGetHandleByIndex_v2")
def _by_index(store: Store, handles: Handles, index: Argument, device: Argument) -> None:
    out = handle_out(device)
    handles.write(out, [devices.by_index(store, number(index))])


@BODIES.named("nvmlDeviceGetHandleByUUID")
def _by_uuid(store: Store, handles: Handles, uuid: Argument, device: Argument) -> None:
    out = handle_out(device)
    handles.write(out, [devices.by_uuid(store, string_in(uuid))])


@BODIES.named("nvmlDeviceGetHandleByPciBusId_v2")
def _by_bus_id(store: Store, handles: Handles, bus_id: Argument, device: Argument) -> None:
    out = handle_out(device)
    handles.write(out, [devices.by_bus_id(store, string_in(bus_id))])


@BODIES.named("nvmlDeviceGetUUID")
def _uuid(store: Store, handles: Handles, device: Argument, buffer: Argument, length: Argument) -> None:
    key = handles.device(device)
    string_out(buffer, length, lambda: devices.uuid_of(store, key))


@BODIES.named("nvmlDeviceGetName")
def _name(store: Store, handles: Handles, device: Argument, buffer: Argument, length: Argument) -> None:
    key = handles.device(device)
    string_out(buffer, length, lambda: devices.name(store, key))


@BODIES.named("nvmlDeviceGetSerial")
def _serial(store: Store, handles: Handles, device: Argument, buffer: Argument, length: Argument) -> None:
    key = handles.device(device)
    string_out(buffer, length, lambda: devices.physical_card(store, key).serial)


@BODIES.named("nvmlDeviceGetIndex")
def _index(store: Store, handles: Handles, device: Argument, index: Argument) -> None:
    key, out = handles.device(device), uint_out(index)
    put(out, devices.index(store, key))


@BODIES.named("nvmlDeviceGetMinorNumber")
def _minor(store: Store, handles: Handles, device: Argument, minor: Argument) -> None:
    key, out = handles.device(device), uint_out(minor)
    put(out, devices.physical_card(store, key).minor)


@BODIES.named("nvmlDeviceGetMemoryAffinity")
def _memory_affinity(  # noqa: PLR0913, PLR0917 - nvml.h says so
    store: Store, handles: Handles, device: Argument, size: Argument, nodes: Argument, scope: Argument
) -> None:
    key, words, out = handles.device(device), number(size), pointer(nodes, ctypes.c_ulong)
    if words == 0 or number(scope) not in _SCOPES:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    # A NUMA node is never split here, so that both scopes mean the same.
    mask = devices.numa_mask(store, key)
    for word in range(words):
        out[word] = mask if word == 0 else 0


@BODIES.named("nvmlDeviceGetPciInfo_v3")
def _pci(store: Store, handles: Handles, device: Argument, info: Argument) -> None:
    key, out = handles.device(device), structure(info, structures.PciInfo)
    card, hardware = devices.physical_card(store, key), devices.physical_hardware(store, key)
    domain, bus, rest = card.bus_id.split(":")
    out.busIdLegacy = f"{domain[-4:]}:{bus}:{rest}".encode()
    out.domain, out.bus, out.device = int(domain, 16), int(bus, 16), int(rest.split(".")[0], 16)
    out.pciDeviceId = hardware.device_id << 16 | NVIDIA_VENDOR_ID
    out.pciSubSystemId = card.subsystem_id
    out.busId = card.bus_id.encode()


@BODIES.named("nvmlDeviceGetArchitecture")
def _architecture(store: Store, handles: Handles, device: Argument, architecture: Argument) -> None:
    key, out = handles.device(device), uint_out(architecture)
    put(out, _ARCHITECTURES[devices.physical_hardware(store, key).architecture.compute_capability[0]])


@BODIES.named("nvmlDeviceGetCudaComputeCapability")
def _capability(store: Store, handles: Handles, device: Argument, major: Argument, minor: Argument) -> None:
    key, out_major, out_minor = handles.device(device), uint_out(major), uint_out(minor)
    capability = devices.physical_hardware(store, key).architecture.compute_capability
    put(out_major, capability[0])
    put(out_minor, capability[1])


@BODIES.named("nvmlDeviceGetPersistenceMode")
def _persistence(store: Store, handles: Handles, device: Argument, mode: Argument) -> None:
    key, out = handles.device(device), uint_out(mode)
    devices.physical_card(store, key)
    put(out, _ENABLED)


@BODIES.named("nvmlDeviceGetMemoryInfo")
def _memory(store: Store, handles: Handles, device: Argument, info: Argument) -> None:
    key, out = handles.device(device), structure(info, structures.Memory)
    memory = devices.memory(store, key)
    # The first version has no field for what the driver reserves and counts it as used.
    out.total, out.free = memory.total * _MIB, memory.free * _MIB
    out.used = (memory.used + memory.reserved) * _MIB


@BODIES.named("nvmlDeviceGetMemoryInfo_v2")
def _memory_v2(store: Store, handles: Handles, device: Argument, info: Argument) -> None:
    key, out = handles.device(device), versioned(info, {2: structures.MemoryV2})
    memory = devices.memory(store, key)
    out.total, out.free = memory.total * _MIB, memory.free * _MIB
    out.reserved, out.used = memory.reserved * _MIB, memory.used * _MIB


@BODIES.named("nvmlDeviceGetUtilizationRates")
def _utilization(store: Store, handles: Handles, device: Argument, rates: Argument) -> None:
    key, out = handles.device(device), structure(rates, structures.Utilization)
    out.gpu, out.memory = devices.utilization(store, key)


@BODIES.named("nvmlDeviceGetMigMode")
def _mig_mode(store: Store, handles: Handles, device: Argument, current: Argument, pending: Argument) -> None:
    key, out_current, out_pending = handles.device(device), uint_out(current), uint_out(pending)
    is_current, is_pending = devices.mig_mode(store, key)
    put(out_current, is_current)
    put(out_pending, is_pending)


@BODIES.named("nvmlDeviceSetMigMode")
def _set_mig_mode(store: Store, handles: Handles, device: Argument, mode: Argument, status: Argument) -> None:
    key, out = handles.device(device), uint_out(status)
    put(out, devices.set_mig_mode(store, key, number(mode)))


@BODIES.named("nvmlDeviceGetMaxMigDeviceCount")
def _max_mig_devices(store: Store, handles: Handles, device: Argument, count: Argument) -> None:
    key, out = handles.device(device), uint_out(count)
    put(out, devices.max_mig_devices(store, key))


@BODIES.named("nvmlDeviceGetMigDeviceHandleByIndex")
def _mig_by_index(store: Store, handles: Handles, device: Argument, index: Argument, mig: Argument) -> None:
    key, out = handles.device(device), handle_out(mig)
    handles.write(out, [devices.mig_by_index(store, key, number(index))])


@BODIES.named("nvmlDeviceIsMigDeviceHandle")
def _is_mig(store: Store, handles: Handles, device: Argument, is_mig: Argument) -> None:
    key, out = handles.device(device), uint_out(is_mig)
    put(out, devices.is_mig(store, key))


@BODIES.named("nvmlDeviceGetGpuInstanceId")
def _gpu_instance_id(store: Store, handles: Handles, device: Argument, instance: Argument) -> None:
    key, out = handles.device(device), uint_out(instance)
    put(out, devices.mig_ids(store, key)[0])


@BODIES.named("nvmlDeviceGetComputeInstanceId")
def _compute_instance_id(store: Store, handles: Handles, device: Argument, instance: Argument) -> None:
    key, out = handles.device(device), uint_out(instance)
    put(out, devices.mig_ids(store, key)[1])


@BODIES.named("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
def _parent(store: Store, handles: Handles, mig: Argument, device: Argument) -> None:
    key, out = handles.device(mig), handle_out(device)
    handles.write(out, [devices.parent(store, key)])


@BODIES.named("nvmlDeviceGetAttributes_v2")
def _attributes(store: Store, handles: Handles, device: Argument, attributes: Argument) -> None:
    key, out = handles.device(device), structure(attributes, structures.Attributes)
    found = devices.attributes(store, key)
    out.multiprocessorCount = found.multiprocessors
    out.sharedCopyEngineCount = figure(found.engines.copy)
    out.sharedDecoderCount = figure(found.engines.decoder)
    out.sharedEncoderCount = figure(found.engines.encoder)
    out.sharedJpegCount = figure(found.engines.jpeg)
    out.sharedOfaCount = figure(found.engines.ofa)
    out.gpuInstanceSliceCount = found.gpu_instance_slices
    out.computeInstanceSliceCount = found.compute_instance_slices
    out.memorySizeMB = found.memory_mib


def _processes(kind: ClientKind) -> Body:
    def body(store: Store, handles: Handles, device: Argument, count: Argument, array: Argument) -> None:
        key, out = handles.device(device), uint_out(count)
        found = devices.processes(store, key, kind)
        room = out[0]
        if len(found) > room:
            put(out, len(found))  # although the call fails: that is how callers learn the size
            raise NvmlFault(NvmlCode.INSUFFICIENT_SIZE)
        if found:
            target = pointer(array, structures.ProcessInfo)
            for index, client in enumerate(found):
                target[index].pid = client.pid
                target[index].usedGpuMemory = client.memory_mib * _MIB
                target[index].gpuInstanceId = _id(client.gpu_instance)
                target[index].computeInstanceId = _id(client.compute_instance)
        put(out, len(found))

    return body


_LISTS: dict[ClientKind, str] = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}
for _kind, _symbol in _LISTS.items():
    BODIES.named(f"{_symbol}_v2", f"{_symbol}_v3")(_processes(_kind))  # the structures of both versions are equal


def _id(instance: int | None) -> int:
    return _NO_INSTANCE if instance is None else instance
