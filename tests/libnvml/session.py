"""One program on one machine, which says what its calls came to.

Handles are addresses, which differ from one way of calling to the next: they are numbered as they come up, and what is
said has the numbers. Buffers are filled before the call, so that what was not written shows.
"""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import structures
from mig_manager.sim.nvml.structures import version_word
from tests.libnvml.callers import Argument, Caller

Said: TypeAlias = Any
FILL = b"\x55"
_FIELDS_WITH_HANDLES = ("device", "gpuInstance")
_ROOM = 8
_CARDS = 4


class Session:
    """``known`` are the handles that came up, by kind, whether what they stand for still exists or not."""

    def __init__(self, call: Caller, machine: Machine) -> None:
        self.call = call
        self.machine = machine
        self.known: dict[str, list[int]] = {"device": [], "gpu": [], "compute": []}
        self._numbers: dict[int, int] = {}

    def pick(self, kind: str, choice: int) -> int:
        """A handle: mostly one of the last of that kind; sometimes NULL or one of any kind."""
        wild, place = choice % 16 == 0, choice // 16
        if wild or not self.known[kind]:
            handles = [0, *(handle for of_kind in self.known.values() for handle in of_kind)]
            return handles[place % len(handles)]
        return self.known[kind][-1 - place % min(len(self.known[kind]), 6)]

    def begin(self) -> Said:
        """Initialise, and learn the cards."""
        code = self.plain("nvmlInitWithFlags", 0)
        return code, [self.found("device", "nvmlDeviceGetHandleByIndex_v2", index) for index in range(_CARDS)]

    def again(self, *, begins: bool) -> Said:
        """End the session, and perhaps begin another."""
        return self.plain("nvmlShutdown"), self.begin() if begins else None

    def slice(self, device: int, profile: int) -> Said:
        """A GPU instance with a compute instance, as far as that goes, and its MIG device."""
        made = self.found("gpu", "nvmlDeviceCreateGpuInstance", device, profile)
        if made[0]:
            return made
        inside = self.found("compute", "nvmlGpuInstanceCreateComputeInstance", self.known["gpu"][-1], 0)
        if inside[0]:
            return made, inside
        newest = self.known["compute"][-1]
        info = self.structure("nvmlComputeInstanceGetInfo_v2", newest, of=structures.ComputeInstanceInfo)
        return made, inside, info

    def plain(self, symbol: str, *arguments: Argument) -> Said:
        """A function without outputs."""
        return self.call(symbol, *arguments)[0]

    def numbers(self, symbol: str, *arguments: Argument, outputs: int = 1) -> Said:
        """A function that writes so many unsigned ints."""
        return self.call(symbol, *arguments, *[FILL * 4] * outputs)

    def text(self, symbol: str, *arguments: Argument, length: int) -> Said:
        """A function that writes a string and is told how long it may be."""
        return self.call(symbol, *arguments, FILL * 128, length)

    def found(self, kind: str, symbol: str, *arguments: Argument) -> Said:
        """A function that writes one handle, which is remembered."""
        code, buffers = self.call(symbol, *arguments, FILL * 8)
        return code, self._learn(kind, buffers[-1], 0 if code else 1)

    def listed(self, kind: str, symbol: str, *arguments: Argument) -> Said:
        """A function that writes several handles and their number."""
        code, (array, count) = self.call(symbol, *arguments, FILL * 8 * _ROOM, _ROOM.to_bytes(4, "little"))
        number = int.from_bytes(count, "little")
        return code, number, self._learn(kind, array, 0 if code else number)

    def structure(self, symbol: str, *arguments: Argument, of: type[ctypes.Structure], version: int = 0) -> Said:
        """A function that fills a structure."""
        blank = bytearray(FILL * ctypes.sizeof(of))
        if version:
            blank[:4] = version_word(of, version).to_bytes(4, "little")
        code, (buffer,) = self.call(symbol, *arguments, bytes(blank))
        filled = of.from_buffer_copy(buffer)
        for name in _FIELDS_WITH_HANDLES:
            if not code and hasattr(filled, name):
                kind = "device" if name == "device" else "gpu"
                setattr(filled, name, self._number(kind, getattr(filled, name)))
        return code, bytes(filled)

    def _learn(self, kind: str, array: bytes, count: int) -> Said:
        values = [int.from_bytes(array[8 * i : 8 * i + 8], "little") for i in range(len(array) // 8)]
        return [self._number(kind, value) for value in values[:count]], values[count:]

    def _number(self, kind: str, handle: int) -> int:
        if handle not in self._numbers:
            self._numbers[handle] = len(self._numbers)
            self.known[kind].append(handle)
        return self._numbers[handle]
