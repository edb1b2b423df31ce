"""The library object: its attributes are the functions, its functions return NVML's codes.

Each attribute is an object that can be called and whose ``restype`` can be set, as nvidia-ml-py does with functions of
a real library. A name that is not implemented is an AttributeError, which nvidia-ml-py reports as function not found.
Conditions of the driver come back as codes; a Python exception means that the caller passed what would have crashed a
real library, or that the simulated machine's file is damaged.
"""

from __future__ import annotations

from collections.abc import Callable

from mig_manager.sim.model.codes import NvmlCode, NvmlFault, error_text
from mig_manager.sim.model.faults import SYMBOLS, enter
from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml import compute, devices, instances, system
from mig_manager.sim.nvml.convert import Argument, Body, Handles, number

_BODIES: dict[str, Body] = {**system.BODIES, **devices.BODIES, **instances.BODIES, **compute.BODIES}
_ALWAYS_THERE = "nvmlErrorString"  # needs no machine and cannot fail
_INIT, _SHUTDOWN = "nvmlInitWithFlags", "nvmlShutdown"


class Function:
    """One function of the library. ``restype`` is there to be set and means nothing."""

    def __init__(self, call: Callable[..., int | bytes]) -> None:
        self._call = call
        self.restype: object = None

    def __call__(self, *arguments: Argument) -> int | bytes:
        """Call it with what ctypes would pass on."""
        return self._call(*arguments)


class Library:
    """What ``pynvml.nvmlLib`` is while a simulated machine is installed."""

    def __init__(self, store: Store, sleep: Callable[[float], None]) -> None:
        self._store = store
        self._sleep = sleep
        self._handles = Handles()
        self._sessions = 0

    def __getattr__(self, symbol: str) -> Function:
        if symbol == _ALWAYS_THERE:
            return Function(lambda code: error_text(number(code)).encode())
        if symbol not in SYMBOLS:
            raise AttributeError(symbol)
        return Function(lambda *arguments: self._invoke(symbol, arguments))

    def _invoke(self, symbol: str, arguments: tuple[Argument, ...]) -> int:
        if symbol != _INIT and not self._sessions:
            return int(NvmlCode.UNINITIALIZED)
        try:
            if enter(self._store, symbol, self._sleep):
                return int(NvmlCode.SUCCESS)
            if symbol == _INIT:
                self._store.read()
                self._sessions += 1
            elif symbol == _SHUTDOWN:
                self._sessions -= 1
            else:
                _BODIES[symbol](self._store, self._handles, *arguments)
        except NvmlFault as fault:
            return int(fault.code)
        return int(NvmlCode.SUCCESS)
