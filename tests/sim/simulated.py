"""What the tests of the simulated machine share: a machine in memory that nvidia-ml-py sees, and short forms."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pynvml
import pytest

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed

Handle: TypeAlias = Any
Options: TypeAlias = Any


@contextmanager
def seen(*gpus: str, mig: bool = True, **options: Options) -> Iterator[Machine]:
    """A new machine in memory, initialised through nvidia-ml-py."""
    machine = Machine.create(None, gpus or ["A100-SXM4-80GB"], mig=mig, **options)
    with installed(machine):
        pynvml.nvmlInit()
        yield machine


def gpu(index: int = 0) -> Handle:
    """The handle of a card."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def create_at(device: Handle, profile_id: int, start: int, size: int) -> Handle:
    """Create a GPU instance at a place."""
    placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile_id, ctypes.byref(placement))


def full_device(instance: Handle, profile_id: int) -> Handle:
    """Create a compute instance and return its MIG device."""
    created = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile_id)
    return pynvml.nvmlComputeInstanceGetInfo(created).device


def instance_id(instance: Handle) -> int:
    """The id of a GPU instance."""
    return int(pynvml.nvmlGpuInstanceGetInfo(instance).id)


@contextmanager
def answer(code: int) -> Iterator[None]:
    """The block must end with that NVML code."""
    with pytest.raises(pynvml.NVMLError) as raised:
        yield
    assert code == raised.value.value


def raw(symbol: str, *arguments: Any) -> int:  # noqa: ANN401 - whatever a C caller could pass
    """Call a function of the library as ctypes would, without what nvidia-ml-py adds."""
    return int(getattr(pynvml.nvmlLib, symbol)(*arguments))


def null_handle() -> Handle:
    """A handle of a device that is NULL."""
    return pynvml.c_nvmlDevice_t()
