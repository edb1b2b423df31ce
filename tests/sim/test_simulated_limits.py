"""What needs MIG mode, permission, or a newer driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pynvml

from mig_manager.sim.model.state import Quirks
from tests.sim.simulated import answer, create_at, gpu, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_without_mig_mode_instances_are_not_supported() -> None:
    """Profiles and places can be read while MIG is off; creating, listing and counting cannot be done."""
    with seen(A100, "T4", mig=False):
        array, count = (pynvml.c_nvmlGpuInstance_t * 7)(), ctypes.c_uint(7)
        assert 9 == pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 2).id
        for device in (gpu(0), gpu(1)):
            with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
                pynvml.nvmlDeviceCreateGpuInstance(device, 9)
            with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
                pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 9)
            with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
                pynvml.nvmlDeviceGetGpuInstances(device, 9, array, ctypes.byref(count))
            with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
                pynvml.nvmlDeviceGetGpuInstanceById(device, 1)
            with answer(pynvml.NVML_ERROR_NOT_FOUND):
                pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 0)
            assert 0 == pynvml.nvmlDeviceGetMaxMigDeviceCount(device)


def test_old_drivers_hide_profiles_while_mig_is_off() -> None:
    """R535 and older answer not supported until MIG mode is current."""
    with seen("H100-SXM5-80GB", mig=False, quirks=Quirks(profile_info_needs_mig=True)):
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 2)
        pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert 9 == pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 2).id


def test_old_drivers_have_no_double_memory_profile() -> None:
    """Before R525 the 1g profile with twice the memory did not exist."""
    with seen(A100, quirks=Quirks(no_double_memory=True)):
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2)
        with answer(INVALID):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 15)


def test_the_unprivileged_may_look_at_little() -> None:
    """Without root every act and most MIG questions are refused; enumerating devices is not."""
    with seen(A100) as machine:
        instance = create_at(gpu(), 9, 0, 4)
        compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
        array, count = (pynvml.c_nvmlGpuInstance_t * 7)(), ctypes.c_uint(7)
        placement = pynvml.c_nvmlGpuInstancePlacement_t(4, 4)
        with machine.change() as state:
            state.root = False
        refusals: list[Callable[[], object]] = [
            lambda: pynvml.nvmlDeviceSetMigMode(gpu(), 0),
            lambda: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 2),
            lambda: pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), 9),
            lambda: pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(), 9, None, ctypes.byref(count)),
            lambda: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 9),
            lambda: pynvml.nvmlDeviceCreateGpuInstance(gpu(), 9),
            lambda: pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu(), 9, ctypes.byref(placement)),
            lambda: pynvml.nvmlDeviceGetGpuInstances(gpu(), 9, array, ctypes.byref(count)),
            lambda: pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 1),
            lambda: pynvml.nvmlGpuInstanceGetInfo(instance),
            lambda: pynvml.nvmlGpuInstanceDestroy(instance),
            lambda: pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 2, 0),
            lambda: pynvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, 2, None, ctypes.byref(count)),
            lambda: pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 2),
            lambda: pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2),
            lambda: pynvml.nvmlGpuInstanceGetComputeInstances(instance, 2, array, ctypes.byref(count)),
            lambda: pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0),
            lambda: pynvml.nvmlComputeInstanceGetInfo(compute),
            lambda: pynvml.nvmlComputeInstanceDestroy(compute),
            lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu()),
        ]
        for refused in refusals:
            with answer(pynvml.NVML_ERROR_NO_PERMISSION):
                refused()
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu())
        assert 40192 == pynvml.nvmlDeviceGetMemoryInfo(device).total >> 20


def test_arguments_are_checked_before_feature_and_feature_before_permission() -> None:
    """The first reason in the driver's order is the one that is told."""
    with seen(A100, "T4", mig=False, root=False):
        with answer(INVALID):
            pynvml.nvmlDeviceSetMigMode(gpu(1), 2)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceSetMigMode(gpu(1), 1)
        with answer(pynvml.NVML_ERROR_NO_PERMISSION):
            pynvml.nvmlDeviceSetMigMode(gpu(0), 1)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(0), 9)
