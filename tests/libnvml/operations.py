"""What a program, and others meanwhile, can do to a machine: operations that are chosen by numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TypeAlias

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.nvml import structures
from tests.libnvml.session import FILL, Said, Session

_PROFILES = (19, 14, 9, 19, 14, 9, 15, 20, 5, 0, 21, 99)  # of GPU instances, on all grids

Operation: TypeAlias = Callable[[Session, int, int, int], Said]


def _profile(number: int) -> int:
    return _PROFILES[number % len(_PROFILES)]


def _compute(number: int) -> int:
    """A profile of compute instances, mostly one of the narrow ones."""
    return number % 9 if number % 4 == 0 else number % 3 % 2


def _text(name: str) -> Operation:
    return lambda s, a, b, _: s.text(f"nvmlDeviceGet{name}", s.pick("device", a), length=b % 128)


def _number(name: str) -> Operation:
    return lambda s, a, *_: s.numbers(f"nvmlDeviceGet{name}", s.pick("device", a))


def _outside(do: Callable[[Machine, int, int], object]) -> Operation:
    """Something that people or the machine do, between two calls of the program."""

    def operation(session: Session, a: int, b: int, _: int) -> Said:
        try:
            return str(do(session.machine, a % 3, b))
        except MachineError as error:
            # What helps may name the file, which is another one for each way of calling.
            return str(error).replace(str(session.machine.store.path), "FILE")

    return operation


def _place(start: int, size: int) -> bytes:
    return start.to_bytes(4, "little") + size.to_bytes(4, "little")


_STRUCTURES: list[tuple[str, type[ctypes.Structure], int]] = [
    ("nvmlDeviceGetMemoryInfo", structures.Memory, 0),
    ("nvmlDeviceGetMemoryInfo_v2", structures.MemoryV2, 2),
    ("nvmlDeviceGetMemoryInfo_v2", structures.MemoryV2, 1),
    ("nvmlDeviceGetUtilizationRates", structures.Utilization, 0),
    ("nvmlDeviceGetAttributes_v2", structures.Attributes, 0),
    ("nvmlDeviceGetPciInfo_v3", structures.PciInfo, 0),
]
_PROFILE_STRUCTURES: list[tuple[str, type[ctypes.Structure], int]] = [
    ("nvmlDeviceGetGpuInstanceProfileInfo", structures.GpuInstanceProfileInfo, 0),
    ("nvmlDeviceGetGpuInstanceProfileInfoV", structures.GpuInstanceProfileInfoV2, 2),
    ("nvmlDeviceGetGpuInstanceProfileInfoV", structures.GpuInstanceProfileInfoV3, 3),
    ("nvmlDeviceGetGpuInstanceProfileInfoV", structures.GpuInstanceProfileInfoV3, 4),
]
_COMPUTE_STRUCTURES: list[tuple[str, type[ctypes.Structure], int]] = [
    ("nvmlGpuInstanceGetComputeInstanceProfileInfo", structures.ComputeInstanceProfileInfo, 0),
    ("nvmlGpuInstanceGetComputeInstanceProfileInfoV", structures.ComputeInstanceProfileInfoV2, 2),
    ("nvmlGpuInstanceGetComputeInstanceProfileInfoV", structures.ComputeInstanceProfileInfoV3, 3),
]
_LISTS = ["Compute", "Graphics", "MPSCompute"]
_FAULTY = [
    "nvmlDeviceCreateGpuInstance",
    "nvmlGpuInstanceDestroy",
    "nvmlDeviceGetUUID",
    "nvmlShutdown",
    "nvmlInitWithFlags",
]

OPERATIONS: list[Operation] = [
    lambda s, *_: s.begin(),
    lambda s, a, *_: s.again(begins=a % 8 > 0),
    # making and unmaking, the more often
    *[lambda s, a, b, _: s.found("gpu", "nvmlDeviceCreateGpuInstance", s.pick("device", a), _profile(b))] * 3,
    *[
        lambda s, a, b, c: s.found(
            "gpu",
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            s.pick("device", a),
            _profile(b),
            _place(c // 4 % 9, 1 << c % 3),
        )
    ]
    * 2,
    *[lambda s, a, b, _: s.slice(s.pick("device", a), _profile(b))] * 4,
    *[lambda s, a, b, _: s.found("compute", "nvmlGpuInstanceCreateComputeInstance", s.pick("gpu", a), _compute(b))] * 3,
    lambda s, a, b, c: s.found(
        "compute",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
        s.pick("gpu", a),
        _compute(b),
        _place(c % 7, 1 + _compute(b)),
    ),
    *[lambda s, a, *_: s.plain("nvmlGpuInstanceDestroy", s.pick("gpu", a))] * 2,
    *[lambda s, a, *_: s.plain("nvmlComputeInstanceDestroy", s.pick("compute", a))] * 2,
    lambda s, a, b, _: s.numbers("nvmlDeviceSetMigMode", s.pick("device", a), b % 3),
    # finding
    lambda s, a, *_: s.found("device", "nvmlDeviceGetHandleByIndex_v2", a),
    lambda s, a, b, _: s.found("device", "nvmlDeviceGetMigDeviceHandleByIndex", s.pick("device", a), b % 8),
    lambda s, a, *_: s.found("device", "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", s.pick("device", a)),
    lambda s, a, b, _: s.found("gpu", "nvmlDeviceGetGpuInstanceById", s.pick("device", a), b % 15),
    lambda s, a, b, _: s.found("compute", "nvmlGpuInstanceGetComputeInstanceById", s.pick("gpu", a), b % 4),
    lambda s, a, b, _: s.listed("gpu", "nvmlDeviceGetGpuInstances", s.pick("device", a), _profile(b)),
    lambda s, a, b, _: s.listed("compute", "nvmlGpuInstanceGetComputeInstances", s.pick("gpu", a), b % 9),
    lambda s, a, *_: s.found("device", "nvmlDeviceGetHandleByUUID", b"GPU-nobody\0" if a % 2 else 0),
    lambda s, a, *_: s.found("device", "nvmlDeviceGetHandleByPciBusId_v2", b"0000:%02x:00.0\0" % (7 + 16 * (a % 4))),
    # reading
    lambda s, *_: s.numbers("nvmlDeviceGetCount_v2"),
    lambda s, *_: s.text("nvmlSystemGetDriverVersion", length=80),
    lambda s, a, *_: s.numbers("nvmlDeviceGetMigMode", s.pick("device", a), outputs=2),
    lambda s, a, b, _: s.numbers("nvmlDeviceGetGpuInstanceRemainingCapacity", s.pick("device", a), _profile(b)),
    lambda s, a, b, _: s.numbers("nvmlGpuInstanceGetComputeInstanceRemainingCapacity", s.pick("gpu", a), b % 9),
    lambda s, a, *_: s.structure("nvmlGpuInstanceGetInfo", s.pick("gpu", a), of=structures.GpuInstanceInfo),
    lambda s, a, *_: s.structure(
        "nvmlComputeInstanceGetInfo_v2", s.pick("compute", a), of=structures.ComputeInstanceInfo
    ),
    *map(_text, ("UUID", "Name", "Serial")),
    *map(_number, ("Index", "MinorNumber", "MaxMigDeviceCount", "GpuInstanceId", "ComputeInstanceId", "Architecture")),
    _number("PersistenceMode"),
    lambda s, a, *_: s.numbers("nvmlDeviceIsMigDeviceHandle", s.pick("device", a)),
    lambda s, a, *_: s.numbers("nvmlDeviceGetCudaComputeCapability", s.pick("device", a), outputs=2),
    lambda s, a, b, _: s.structure(
        _STRUCTURES[b % 6][0], s.pick("device", a), of=_STRUCTURES[b % 6][1], version=_STRUCTURES[b % 6][2]
    ),
    lambda s, a, b, c: s.structure(
        _PROFILE_STRUCTURES[c % 4][0],
        s.pick("device", a),
        b % 19,
        of=_PROFILE_STRUCTURES[c % 4][1],
        version=_PROFILE_STRUCTURES[c % 4][2],
    ),
    lambda s, a, b, c: s.structure(
        _COMPUTE_STRUCTURES[c % 3][0],
        s.pick("gpu", a),
        b % 10,
        c % 2,
        of=_COMPUTE_STRUCTURES[c % 3][1],
        version=_COMPUTE_STRUCTURES[c % 3][2],
    ),
    lambda s, a, b, c: s.call(
        f"nvmlDeviceGet{_LISTS[b % 3]}RunningProcesses_v3",
        s.pick("device", a),
        (c % 4).to_bytes(4, "little"),
        FILL * 96,
    ),
    lambda s, a, b, _: s.call(
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2", s.pick("device", a), _profile(b), FILL * 64, FILL * 4
    ),
    lambda s, a, b, _: s.call(
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2", s.pick("device", a), _profile(b), 0, FILL * 4
    ),
    lambda s, a, b, _: s.call(
        "nvmlGpuInstanceGetComputeInstancePossiblePlacements", s.pick("gpu", a), _compute(b), FILL * 64, FILL * 4
    ),
    # what others do meanwhile
    _outside(lambda m, gpu, start: m.hold(gpu, start=start % 8, visible=start % 3 > 0)),
    _outside(lambda m, gpu, _: m.hold(gpu)),
    *[_outside(lambda m, gpu, _: len(m.free(gpu)))] * 2,
    _outside(lambda m, gpu, b: m.reset(gpu) if b % 4 else m.reboot()),
    _outside(lambda m, gpu, start: m.remove_instance(gpu, start=start % 8)),
    _outside(lambda m, gpu, b: m.inject(_FAULTY[b % 5], code=(19, 15, 999)[gpu], calls=[1 + b % 3])),
]
