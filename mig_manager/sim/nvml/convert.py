"""Between C arguments and values: numbers, pointers, strings, handles."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.keys import AnyDeviceKey, ComputeInstanceKey, DeviceKey, GpuInstanceKey, Key, MigDeviceKey
from mig_manager.sim.nvml.structures import version_word

Argument: TypeAlias = Any
"""What ctypes would pass on: a number, a ctypes object, a pointer, a structure by reference, ``None``."""

Body: TypeAlias = Callable[..., None]
"""``(store, handles, *arguments)``: does what the function does, writes its outputs, raises NvmlFault."""

Structure: TypeAlias = Any
"""A ctypes structure; its fields have no types that a checker knows."""

_KeyT = TypeVar("_KeyT", bound=Key)
_BUFFERS: list[Any] = []
"""What all handles ever given out point at. Nothing is freed, so no address ever means two things."""


def number(argument: Argument) -> int:
    """A scalar, which arrives as int or as c_uint."""
    return int(argument.value if isinstance(argument, ctypes._SimpleCData) else argument)  # noqa: SLF001 - its base class


def pointer(argument: Argument, target: type[Any]) -> Structure:
    """A pointer that may be written through; INVALID_ARGUMENT for NULL.

    Casting accepts references, arrays and pointers and raises ctypes.ArgumentError for a structure by value, which
    would be read as an address by a real library and end the process.
    """
    found: Structure = ctypes.cast(argument, ctypes.POINTER(target))
    if not found:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return found


def structure(argument: Argument, target: type[Any]) -> Structure:
    """A structure to fill; INVALID_ARGUMENT for NULL."""
    return pointer(argument, target).contents


def versioned(argument: Argument, known: Mapping[int, type[ctypes.Structure]]) -> Structure:
    """The structure that its version word says it is; INVALID_ARGUMENT for NULL and for one that is not known."""
    word = uint_out(argument)[0]
    for version, target in known.items():
        if word == version_word(target, version):
            return structure(argument, target)
    raise NvmlFault(NvmlCode.INVALID_ARGUMENT)


def put(argument: Structure, value: int) -> None:
    """Write through a pointer."""
    argument[0] = value


def string_in(argument: Argument) -> str:
    """A C string; INVALID_ARGUMENT for NULL."""
    text = ctypes.cast(argument, ctypes.c_char_p).value
    if text is None:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return text.decode(errors="replace")


def string_out(buffer: Argument, length: Argument, read: Callable[[], str]) -> None:
    """Write what ``read`` returns; INVALID_ARGUMENT for NULL, INSUFFICIENT_SIZE when it does not fit."""
    target = pointer(buffer, ctypes.c_char)
    text = read().encode() + b"\0"
    if len(text) > number(length):
        raise NvmlFault(NvmlCode.INSUFFICIENT_SIZE)
    ctypes.memmove(target, text, len(text))


class Handles:
    """Opaque handles: addresses of buffers, one for each key that was ever given out by this library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}

    def device(self, argument: Argument) -> AnyDeviceKey:
        """The card or MIG device; INVALID_ARGUMENT for NULL and for what is none."""
        key = self._key(argument)
        if not isinstance(key, DeviceKey | MigDeviceKey):
            raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
        return key

    def gpu_instance(self, argument: Argument) -> GpuInstanceKey:
        """The GPU instance; INVALID_ARGUMENT for NULL and for what is none."""
        return self._of_kind(argument, GpuInstanceKey)

    def compute_instance(self, argument: Argument) -> ComputeInstanceKey:
        """The compute instance; INVALID_ARGUMENT for NULL and for what is none."""
        return self._of_kind(argument, ComputeInstanceKey)

    def address(self, key: Key) -> int:
        """The handle for a key."""
        with self._lock:
            if key not in self._addresses:
                buffer = ctypes.create_string_buffer(16)
                _BUFFERS.append(buffer)
                self._addresses[key] = ctypes.addressof(buffer)
                self._keys[ctypes.addressof(buffer)] = key
            return self._addresses[key]

    def write(self, target: Structure, keys: Iterable[Key]) -> None:
        """Write handles into an array of handles."""
        for index, key in enumerate(keys):
            target[index] = self.address(key)

    def _of_kind(self, argument: Argument, kind: type[_KeyT]) -> _KeyT:
        key = self._key(argument)
        if not isinstance(key, kind):
            raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
        return key

    def _key(self, argument: Argument) -> Key | None:
        return self._keys.get(ctypes.cast(argument, ctypes.c_void_p).value or 0)


def handle_out(argument: Argument) -> Structure:
    """Where a handle shall be written; INVALID_ARGUMENT for NULL."""
    return pointer(argument, ctypes.c_void_p)


def uint_out(argument: Argument) -> Structure:
    """Where an unsigned int shall be written; INVALID_ARGUMENT for NULL."""
    return pointer(argument, ctypes.c_uint)


class Bodies(dict[str, Body]):
    """The functions of one module by symbol."""

    def named(self, *symbols: str) -> Callable[[Body], Body]:
        """Register a function under its symbols."""

        def register(body: Body) -> Body:
            self.update(dict.fromkeys(symbols, body))
            return body

        return register
