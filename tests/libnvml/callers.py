"""Three ways to call a function of NVML with numbers and bytes, which must do the same.

A call is a name and arguments: numbers (handles too) and buffers. It returns the code and what is in the buffers then.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from mig_manager.sim.libnvml.entry import VARIABLE
from mig_manager.sim.libnvml.functions import functions
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml.library import Library
from tests.libnvml.programs import seeing

Argument: TypeAlias = int | bytes
Answer: TypeAlias = tuple[int, list[bytes]]
UNINITIALIZED = 1


class Caller(Protocol):
    """One of the ways."""

    def __call__(self, symbol: str, *arguments: Argument) -> Answer:
        """Call the function."""
        ...


@contextmanager
def in_process(machine: Machine) -> Iterator[Caller]:
    """The object that nvidia-ml-py gets."""
    library = Library(machine.store, sleep=lambda _: None)

    def call(symbol: str, *arguments: Argument) -> Answer:
        buffers, values = _buffers(arguments)
        kinds = functions().modelled[symbol]
        passed = [value or None if kind == "pointer" else value for kind, value in zip(kinds, values, strict=True)]
        code = library.invoke(symbol, passed)
        return code, [buffer.raw for buffer in buffers]

    yield call


@contextmanager
def in_this_python(library: Path, machine: Machine) -> Iterator[Caller]:
    """The library in a program that is a Python: this one."""
    loaded = ctypes.CDLL(str(library))

    def call(symbol: str, *arguments: Argument) -> Answer:
        buffers, values = _buffers(arguments)
        code = getattr(loaded, symbol)(*map(ctypes.c_uint64, values))
        return code, [buffer.raw for buffer in buffers]

    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(machine.store.path)
    try:
        yield call
    finally:
        while call("nvmlShutdown")[0] != UNINITIALIZED:
            pass
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


@contextmanager
def in_c(library: Path, program: Path, machine: Machine) -> Iterator[Caller]:
    """The library in a program in C, caller.c."""
    pipe = subprocess.PIPE
    with subprocess.Popen([program], env=seeing(library, machine), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def call(symbol: str, *arguments: Argument) -> Answer:
            words = [f"b{a.hex()}" if isinstance(a, bytes) else f"n{a}" for a in arguments]
            lines.write(" ".join([symbol, *words]) + "\n")
            lines.flush()
            code, *buffers = answers.readline().split()
            return int(code), [bytes.fromhex(buffer) for buffer in buffers]

        yield call
        lines.close()
    assert 0 == process.returncode


def _buffers(arguments: tuple[Argument, ...]) -> tuple[list[ctypes.Array[ctypes.c_char]], list[int]]:
    buffers, values = [], []
    for argument in arguments:
        if isinstance(argument, bytes):
            buffers.append(ctypes.create_string_buffer(argument, len(argument)))
            values.append(ctypes.addressof(buffers[-1]))
        else:
            values.append(argument)
    return buffers, values
