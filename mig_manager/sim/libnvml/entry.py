"""What the C part of the library calls: one function for all functions of NVML.

The machine is the file that ``$MIG_MANAGER_SIM`` names at the first nvmlInit; it is looked at again by an nvmlInit that
finds no session open. Standard error gets one line for what no return code can say.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml.library import INIT, Library

VARIABLE = "MIG_MANAGER_SIM"
_POINTER = "p"


class Entry:
    """The library of this process, on the machine that the environment names."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._library: Library | None = None
        self._path: Path | None = None

    def call(self, symbol: str, kinds: str, address: int) -> int:
        """Call the function with the values at that address, one for each letter of ``kinds``; return its code."""
        values = (ctypes.c_uint64 * len(kinds)).from_address(address)
        arguments = [value or None if kind == _POINTER else value for kind, value in zip(kinds, values, strict=True)]
        try:
            library = self._current(begin=symbol == INIT)
            return library.invoke(symbol, arguments) if library is not None else int(NvmlCode.UNINITIALIZED)
        except MachineError as error:
            _say(f"{symbol}: {error}")
            return int(NvmlCode.DRIVER_NOT_LOADED if symbol == INIT else NvmlCode.UNKNOWN)
        except BaseException:  # noqa: BLE001 - the caller is C: there is nobody above to catch it
            _say(f"{symbol}: {traceback.format_exc()}")
            return int(NvmlCode.UNKNOWN)

    def _current(self, *, begin: bool) -> Library | None:
        if not begin:
            return self._library
        with self._lock:
            if self._library is None or not self._library.in_use:
                path = self._named()
                if path != self._path:
                    self._path, self._library = path, Library(Store(path), time.sleep)
            return self._library

    def _named(self) -> Path:
        named = self._environ.get(VARIABLE, "")
        if not named:
            raise MachineError(
                f"${VARIABLE} is not set", "set it to the file of a simulated machine (mig-manager sim create FILE)"
            )
        return Path(named).absolute()


def _say(text: str) -> None:
    # Not print: what is buffered when the program ends is lost, because nothing ends this interpreter.
    os.write(2, f"simulated libnvidia-ml.so.1: {text}\n".encode(errors="backslashreplace"))


call = Entry().call
