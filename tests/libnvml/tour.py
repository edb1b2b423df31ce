"""A look at everything that nvidia-ml-py can read of a machine with MIG. As a program it prints what it saw as JSON."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pynvml

Handle: TypeAlias = Any
Plain: TypeAlias = Any
"""What JSON can hold."""

_CARD = [
    *("Index", "MinorNumber", "PersistenceMode", "Architecture", "CudaComputeCapability", "UtilizationRates", "Serial"),
    *("UUID", "Name", "PciInfo", "MigMode", "MaxMigDeviceCount", "MemoryInfo", "FanSpeed"),
    *("ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses"),
]
_MIG = ["UUID", "Name", "MemoryInfo", "Attributes", "GpuInstanceId", "ComputeInstanceId", "ComputeRunningProcesses"]
_NULL = ctypes.POINTER(pynvml.struct_c_nvmlDevice_t)()
_ABSENT = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def everything() -> dict[str, Plain]:
    """All of it."""
    pynvml.nvmlInit()
    seen = {
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "nvml": pynvml.nvmlSystemGetNVMLVersion(),
        "cuda": pynvml.nvmlSystemGetCudaDriverVersion_v2(),
        "cards": [_card(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())],
        "beyond": _said(pynvml.nvmlDeviceGetHandleByIndex, 99),
        "null": _said(pynvml.nvmlDeviceGetUUID, _NULL),
        "unknown": _said(pynvml.nvmlDeviceGetHandleByUUID, "GPU-nobody"),
    }
    pynvml.nvmlShutdown()
    return seen


def _said(function: Callable[..., Any], *arguments: object) -> Plain:
    try:
        return _plain(function(*arguments))
    except pynvml.NVMLError as error:
        # What is only there to be called in the library is not found in-process.
        return "not there" if error.value in _ABSENT else str(error)


def _plain(value: Any) -> Plain:  # noqa: ANN401 - whatever nvidia-ml-py returns
    if isinstance(value, ctypes.Structure):
        named = [(name, getattr(value, name)) for name, *_ in value._fields_]
        return {name: _plain(field) for name, field in named if not isinstance(field, ctypes._Pointer)}
    if isinstance(value, pynvml.c_uint):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return vars(value) if hasattr(value, "__dict__") else value


def _read(names: Iterable[str], device: Handle) -> dict[str, Plain]:
    return {name: _said(getattr(pynvml, f"nvmlDeviceGet{name}"), device) for name in names}


def _card(device: Handle) -> dict[str, Plain]:
    constants = range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT + 1)
    profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
    return {
        **_read(_CARD, device),
        "memory": _said(pynvml.nvmlDeviceGetMemoryInfo, device, pynvml.nvmlMemory_v2),
        "profiles": [[_said(profile, device, constant, version) for version in (1, 2)] for constant in constants],
        "by id": [_profile(device, number) for number in range(70)],
        "mig": [_said(_mig, device, index) for index in range(8)],
    }


def _profile(device: Handle, number: int) -> list[Plain]:
    return [
        _said(pynvml.nvmlDeviceGetGpuInstanceProfileInfoById, device, number),
        _said(pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity, device, number),
        _said(_placements, device, number),
        _said(_instances, device, number),
    ]


def _placements(device: Handle, number: int) -> Plain:
    count = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, number, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, number, places, ctypes.byref(count))
    return list(places)


def _instances(device: Handle, number: int) -> Plain:
    room, count = (pynvml.c_nvmlGpuInstance_t * 8)(), ctypes.c_uint(8)
    pynvml.nvmlDeviceGetGpuInstances(device, number, room, ctypes.byref(count))
    return [_instance(instance) for instance in room[: count.value]]


def _instance(instance: Handle) -> list[Plain]:
    constants = range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT + 1)
    profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    return [
        _said(pynvml.nvmlGpuInstanceGetInfo, instance),
        [[_said(profile, instance, constant, 0, version) for version in (1, 2)] for constant in constants],
        [_said(pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity, instance, number) for number in constants],
        [_said(_compute, instance, number) for number in range(3)],
    ]


def _compute(instance: Handle, number: int) -> list[Plain]:
    info = pynvml.nvmlComputeInstanceGetInfo(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, number))
    return [info, pynvml.nvmlDeviceGetUUID(info.device)]


def _mig(card: Handle, index: int) -> list[Plain]:
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    is_mig = pynvml.nvmlDeviceIsMigDeviceHandle(device)
    return [_read(_MIG, device), pynvml.nvmlDeviceGetUUID(parent), is_mig]


if __name__ == "__main__":
    print(json.dumps(everything(), sort_keys=True))
