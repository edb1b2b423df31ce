"""An NVML library that lies: the simulated one, whose answers are changed on their way to the caller.

A lie is about one function: from the n-th call on, for so many calls, one number, string or handle that it writes is
another. What is written where is the C signature of nvml.h; what the card really is, the machine knows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from mig_manager.sim.nvml import structures

Answer = Any
"""What ctypes passes: a number, a reference to a structure, an array."""

_NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, 7, 8, 9, 13, 16, 63, 64, 65, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1]),
    st.integers(0, 2**32 - 1),
)
_TEXTS = st.one_of(
    st.sampled_from([b"", b"\xff\xfe", b"MIG 7g.80gb", b"MIG 1g.10gb", b"A\nB", b"GPU-\x1b[2J", b"x" * 31]),
    st.binary(max_size=31),
).map(lambda text: text.replace(b"\0", b""))

# The index of the argument that is written, what it is, and the fields that can lie; "" is the value itself.
_UINT, _PLACE = ctypes.c_uint, structures.Placement
_PROFILE = ("id", "sliceCount", "instanceCount", "multiprocessorCount", "memorySizeMB", "name")
_COMPUTE_PROFILE = ("id", "sliceCount", "instanceCount", "multiprocessorCount")
_INFO = ("id", "profileId", "placement.start", "placement.size")
_PROCESS = ("pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId")
_WRITTEN: Mapping[str, list[tuple[int, Any, tuple[str, ...]]]] = {
    "nvmlDeviceGetCount_v2": [(0, _UINT, ("",))],
    "nvmlDeviceGetMinorNumber": [(1, _UINT, ("",))],
    "nvmlDeviceGetPciInfo_v3": [(1, structures.PciInfo, ("pciDeviceId", "pciSubSystemId", "busId"))],
    "nvmlDeviceGetCudaComputeCapability": [(1, _UINT, ("",)), (2, _UINT, ("",))],
    "nvmlDeviceGetMemoryInfo": [(1, structures.Memory, ("total", "free", "used"))],
    "nvmlDeviceGetMigMode": [(1, _UINT, ("",)), (2, _UINT, ("",))],
    "nvmlDeviceSetMigMode": [(2, _UINT, ("",))],
    "nvmlDeviceGetMaxMigDeviceCount": [(1, _UINT, ("",))],
    "nvmlDeviceGetGpuInstanceId": [(1, _UINT, ("",))],
    "nvmlDeviceGetComputeInstanceId": [(1, _UINT, ("",))],
    "nvmlDeviceGetGpuInstanceProfileInfoV": [(2, structures.GpuInstanceProfileInfoV2, _PROFILE)],
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": [(2, _PLACE, ("start", "size")), (3, _UINT, ("",))],
    "nvmlDeviceGetGpuInstances": [(3, _UINT, ("",))],
    "nvmlGpuInstanceGetInfo": [(1, structures.GpuInstanceInfo, _INFO)],
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": [(3, structures.ComputeInstanceProfileInfoV2, _COMPUTE_PROFILE)],
    "nvmlGpuInstanceGetComputeInstances": [(3, _UINT, ("",))],
    "nvmlComputeInstanceGetInfo_v2": [(1, structures.ComputeInstanceInfo, _INFO)],
    "nvmlDeviceGetComputeRunningProcesses_v3": [(1, _UINT, ("",)), (2, structures.ProcessInfo, _PROCESS)],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [(1, _UINT, ("",))],
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": [(1, _UINT, ("",))],
    "nvmlDeviceGetUUID": [(1, ctypes.c_char, ("text",))],
    "nvmlDeviceGetName": [(1, ctypes.c_char, ("text",))],
}

DESTROYING = {"nvmlGpuInstanceDestroy": "gpu", "nvmlComputeInstanceDestroy": "compute"}

CODES = st.sampled_from([1, 2, 3, 4, 6, 7, 12, 13, 15, 16, 18, 19, 23, 25, 999, 4711])
"""Return codes of nvml.h, and one that it does not know."""


@dataclass
class Lie:
    """One field of one function says ``value``, in ``times`` calls after ``skip`` true ones; a ``code`` fails it."""

    function: str
    argument: int
    kind: Any
    field: str
    value: Any
    skip: int
    times: int
    code: int = 0
    seen: int = 0

    def strikes(self) -> bool:
        """Whether the call that is counted by this is one of those."""
        self.seen += 1
        return self.skip < self.seen <= self.skip + self.times

    def tell(self, arguments: tuple[Answer, ...]) -> None:
        """Write the lie over the truth."""
        if arguments[self.argument] is None:
            return
        pointer = ctypes.cast(arguments[self.argument], ctypes.POINTER(self.kind))
        if self.field == "":
            pointer[0] = self.value
        elif self.field == "text":
            ctypes.memmove(pointer, self.value + b"\0", len(self.value) + 1)
        else:
            target: Any = pointer.contents
            *path, last = self.field.split(".")
            for step in path:
                target = getattr(target, step)
            setattr(target, last, self.value)


@st.composite
def lies(draw: st.DrawFn) -> Lie:
    """Any lie."""
    function = draw(st.sampled_from(sorted(_WRITTEN)))
    argument, kind, fields = draw(st.sampled_from(_WRITTEN[function]))
    field_name = draw(st.sampled_from(fields))
    texts = field_name in ("name", "busId", "text")
    value = draw(_TEXTS if texts else _NUMBERS)
    often = st.sampled_from([1, 1, 2, 10, 1000])
    code = draw(CODES) if draw(st.integers(0, 9)) == 0 else 0
    return Lie(function, argument, kind, field_name, value, draw(st.integers(0, 12)), draw(often), code)


SETS = st.lists(lies(), min_size=1, max_size=3)
"""What a library lies about."""


@dataclass
class LyingLibrary:
    """The library with its lies. ``destroys`` hears of every call that destroys, with its handle, before it is made."""

    library: Any
    lies: list[Lie]
    destroys: Callable[[str, Answer], None]
    told: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> _Function:
        return _Function(name, getattr(self.library, name), self)


@dataclass
class _Function:
    name: str
    function: Any
    owner: LyingLibrary
    restype: object = None

    def __call__(self, *arguments: Answer) -> Answer:
        """What the library says, or a lie."""
        if self.name in DESTROYING:
            self.owner.destroys(DESTROYING[self.name], arguments[0])
        struck = [lie for lie in self.owner.lies if lie.function == self.name and lie.strikes()]
        code = self.function(*arguments)
        for lie in struck:
            self.owner.told.append(f"{self.name}.{lie.field} = {lie.value!r}")
            lie.tell(arguments)
            code = lie.code or code
        return code
