"""The library object: its attributes are the functions, its functions return NVML's codes.

Each attribute is an object that can be called and whose ``restype`` can be set, as nvidia-ml-py does with functions of
a real library. A name that is not implemented is an AttributeError, which nvidia-ml-py reports as function not found.
Conditions of the driver come back as codes; a Python exception means that the caller passed what would have crashed a
real library, or that the simulated machine's file is damaged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mig_manager.sim.model.codes import NvmlCode, NvmlFault, error_text
from mig_manager.sim.model.faults import SYMBOLS, enter
from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml import compute, devices, instances, system
from mig_manager.sim.nvml.convert import Argument, Body, Handles, number

_BODIES: dict[str, Body] = {**system.BODIES, **devices.BODIES, **instances.BODIES, **compute.BODIES}
_ALWAYS_THERE = "nvmlErrorString"  # needs no machine and cannot fail
INIT, _SHUTDOWN = "nvmlInitWithFlags", "nvmlShutdown"


class Function:
    """One function of the library. ``restype`` is there to be set and means nothing."""

    def __init__(self, call: Callable[..., int | bytes]) -> None:
        self._call = call
        self.restype: object = None

    def __call__(self, *arguments: Argument) -> int | bytes:
        """Call it with what ctypes would pass on."""
        return self._call(*arguments)


class Library:
    """One process's view of a machine: its sessions and its handles.

    It is what ``pynvml.nvmlLib`` is while a simulated machine is installed, and what is behind ``libnvidia-ml.so.1``.
    """

    def __init__(self, store: Store, sleep: Callable[[float], None]) -> None:
        self._store = store
        self._sleep = sleep
        self._handles = Handles()
        self._sessions = 0
        self._counting = threading.Lock()

    @property
    def in_use(self) -> bool:
        """Whether there were more initialisations than shutdowns."""
        return self._sessions > 0

    def __getattr__(self, symbol: str) -> Function:
        if symbol == _ALWAYS_THERE:
            return Function(lambda code: error_text(number(code)).encode())
        if symbol not in SYMBOLS:
            raise AttributeError(symbol)
        return Function(lambda *arguments: self.invoke(symbol, arguments))

    def invoke(self, symbol: str, arguments: Sequence[Argument]) -> int:
        """Call a function and return NVML's code; MachineError when the machine cannot be read.

        One that is not modelled is not supported.
        """
        if symbol != INIT and not self._sessions:
            return int(NvmlCode.UNINITIALIZED)
        if symbol not in SYMBOLS:
            return int(NvmlCode.NOT_SUPPORTED)
        try:
            if enter(self._store, symbol, self._sleep):
                return int(NvmlCode.SUCCESS)
            if symbol == INIT:
                self._store.read()
                with self._counting:
                    self._sessions += 1
            elif symbol == _SHUTDOWN:
                self._end_session()
            else:
                _BODIES[symbol](self._store, self._handles, *arguments)
        except NvmlFault as fault:
            return int(fault.code)
        return int(NvmlCode.SUCCESS)

    def _end_session(self) -> None:
        with self._counting:
            if not self._sessions:  # another thread was faster
                raise NvmlFault(NvmlCode.UNINITIALIZED)
            self._sessions -= 1
