"""The simulated machine as the library that nvidia-ml-py loads: an object in place of ``pynvml.nvmlLib``.

Only nvidia-ml-py in this process is concerned. Nothing of it is patched but the one attribute; its caches are emptied
whenever the library changes, because it keeps function pointers and error texts for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.nvml.library import Library

_ERROR_TEXTS: dict[int, str] = {}
"""What nvidia-ml-py knew before anything was installed."""


def install(machine: Machine, sleep: Callable[[float], None] = time.sleep) -> None:
    """Let nvidia-ml-py see this machine. ``sleep`` passes the time of injected latencies.

    MachineError while a library is loaded, simulated or not: handles of two machines must never mix.
    """
    import pynvml

    if pynvml.nvmlLib is not None:
        raise MachineError("nvidia-ml-py has a library loaded already", "uninstall that, or start a new process")
    _forget()
    pynvml.nvmlLib = Library(machine.store, sleep)


def uninstall() -> None:
    """Leave nvidia-ml-py as if it had never loaded a library; no error when it has none."""
    import pynvml

    pynvml.nvmlLib = None
    _forget()


@contextmanager
def installed(machine: Machine, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """The machine is what nvidia-ml-py sees while the block runs."""
    install(machine, sleep)
    try:
        yield
    finally:
        uninstall()


def _forget() -> None:
    import pynvml

    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - there is no public way to it
    pynvml._nvmlLib_refcount = 0  # noqa: SLF001 - the same
    texts = pynvml.NVMLError._errcode_to_string  # noqa: SLF001 - the same
    if not _ERROR_TEXTS:
        _ERROR_TEXTS.update(texts)
    texts.clear()
    texts.update(_ERROR_TEXTS)
