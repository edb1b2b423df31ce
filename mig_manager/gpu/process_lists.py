"""Reading a list of processes from NVML, whose length the library says itself.

nvidia-ml-py does this too, but believes any length: a library that says four billion would have it fill the memory.
"""

from __future__ import annotations

import ctypes

import pynvml

from mig_manager.gpu import plausible
from mig_manager.gpu.discovery import Handle, Structure

_TRIES = 5
_SPARE = 16  # processes that may start between the two calls


def listed_processes(act: str, function: str, handle: Handle) -> list[Structure]:
    """What that function lists (``nvmlProcessInfo_v2_t``); NVMLError, and NotUnderstoodError for a senseless length.

    The first call asks for the length. Processes that start meanwhile make it grow, so it is asked for again.
    """
    call = pynvml._nvmlGetFunctionPointer(function)  # noqa: SLF001 - there is no public way to it
    count, room = ctypes.c_uint(0), 0
    array = None
    for _ in range(_TRIES):
        code = call(handle, ctypes.byref(count), array)
        if code == pynvml.NVML_SUCCESS:
            there = plausible.limited(act, f"processes where there is room for {room}", count.value, room)
            return list(array[:there]) if array is not None else []
        if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            break
        room = plausible.limited(act, "processes", count.value, plausible.MOST_PROCESSES) + _SPARE
        count, array = ctypes.c_uint(room), (pynvml.c_nvmlProcessInfo_v2_t * room)()
    raise pynvml.NVMLError(code)
