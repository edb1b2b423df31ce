"""Handles: every address means one thing, and nothing once that is gone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pynvml

from tests.sim.simulated import answer, create_at, full_device, gpu, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_handles_of_destroyed_instances_are_recognised() -> None:
    """A handle stays invalid even when an instance with the same id exists again."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
        device = pynvml.nvmlComputeInstanceGetInfo(compute).device
        pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlGpuInstanceDestroy(instance)
        stale_calls: list[Callable[[], object]] = [
            lambda: pynvml.nvmlGpuInstanceGetInfo(instance),
            lambda: pynvml.nvmlComputeInstanceGetInfo(compute),
            lambda: pynvml.nvmlDeviceGetUUID(device),
        ]
        for stale in stale_calls:
            with answer(INVALID):
                stale()
        full_device(create_at(gpu(), 9, 0, 4), 2)
        stale_calls = [
            lambda: pynvml.nvmlGpuInstanceGetInfo(instance),
            lambda: pynvml.nvmlGpuInstanceDestroy(instance),
            lambda: pynvml.nvmlComputeInstanceGetInfo(compute),
            lambda: pynvml.nvmlDeviceGetUUID(device),
            lambda: pynvml.nvmlDeviceGetName(device),
            lambda: pynvml.nvmlDeviceIsMigDeviceHandle(device),
        ]
        for stale in stale_calls:
            with answer(INVALID):
                stale()


def test_handles_of_another_kind_or_library_are_argument_errors() -> None:
    """An address means one thing, in the library that gave it out."""
    with seen(A100):
        foreign = gpu()
        instance = create_at(foreign, 9, 0, 4)
        with answer(INVALID):
            pynvml.nvmlDeviceGetUUID(instance)
        with answer(INVALID):
            pynvml.nvmlGpuInstanceGetInfo(foreign)
    with seen(A100), answer(INVALID):
        pynvml.nvmlDeviceGetUUID(foreign)


def test_the_same_object_has_the_same_handle() -> None:
    """Asking twice gives one address, so callers may compare them."""
    with seen(A100):
        assert ctypes.addressof(gpu().contents) == ctypes.addressof(gpu().contents)
