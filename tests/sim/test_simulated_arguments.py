"""Arguments and profiles: what the simulated library accepts is what a real one accepts."""

from __future__ import annotations

import ctypes

import pynvml
import pytest

from tests.sim.simulated import answer, create_at, gpu, instance_id, null_handle, raw, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_null_pointers_are_argument_errors() -> None:
    """NULL for an output or a handle never crashes and never writes."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        count = ctypes.c_uint(7)
        assert INVALID == raw("nvmlDeviceGetCount_v2", None)
        assert INVALID == raw("nvmlDeviceGetIndex", null_handle(), ctypes.byref(count))
        assert INVALID == raw("nvmlDeviceGetHandleByUUID", None, ctypes.byref(null_handle()))
        assert INVALID == raw("nvmlDeviceGetUUID", gpu(), None, 80)
        assert INVALID == raw("nvmlDeviceCreateGpuInstanceWithPlacement", gpu(), 9, None, ctypes.byref(count))
        assert INVALID == raw("nvmlDeviceGetGpuInstances", gpu(), 9, None, ctypes.byref(count))
        assert INVALID == raw("nvmlGpuInstanceGetComputeInstances", instance, 0, None, ctypes.byref(count))
        assert INVALID == raw("nvmlGpuInstanceDestroy", None)
        assert INVALID == raw("nvmlComputeInstanceDestroy", None)
        assert 7 == count.value


def test_nothing_is_written_when_a_call_fails() -> None:
    """An argument error anywhere leaves the other outputs untouched."""
    with seen(A100, "T4"):
        current = ctypes.c_uint(7)
        assert INVALID == raw("nvmlDeviceGetMigMode", gpu(0), ctypes.byref(current), None)
        assert pynvml.NVML_ERROR_NOT_SUPPORTED == raw(
            "nvmlDeviceGetMigMode", gpu(1), ctypes.byref(current), ctypes.byref(current)
        )
        assert 7 == current.value


def test_a_placement_by_value_is_caught() -> None:
    """What would end the process with a real library is a Python exception here."""
    with seen(A100), pytest.raises(ctypes.ArgumentError):
        pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu(), 9, pynvml.c_nvmlGpuInstancePlacement_t(0, 4))


def test_short_buffers_are_refused() -> None:
    """A string that does not fit with its end is insufficient size."""
    with seen(A100):
        buffer = ctypes.create_string_buffer(80)
        assert pynvml.NVML_ERROR_INSUFFICIENT_SIZE == raw("nvmlDeviceGetUUID", gpu(), buffer, 40)
        assert 0 == raw("nvmlDeviceGetUUID", gpu(), buffer, ctypes.c_uint(41))
        assert 40 == len(buffer.value)


def test_wrong_versions_of_structures_are_argument_errors() -> None:
    """A version word that is not the expected one is refused as the real library does, with code 2."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        profile, compute = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t(), pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
        profile.version, compute.version = 0x04000098, 0x0200008C
        assert INVALID == raw("nvmlDeviceGetGpuInstanceProfileInfoV", gpu(), 0, ctypes.byref(profile))
        assert INVALID == raw("nvmlDeviceGetGpuInstanceProfileInfoByIdV", gpu(), 9, ctypes.byref(profile))
        assert INVALID == raw("nvmlGpuInstanceGetComputeInstanceProfileInfoV", instance, 0, 0, ctypes.byref(compute))
        with answer(INVALID):
            pynvml.nvmlDeviceGetMemoryInfo(gpu(), 0x01000028)


def test_discovery_ends_at_the_last_constant() -> None:
    """Constants that the card lacks are not supported, one past the last is an argument error."""
    with seen(A100, "T4"):
        answers = []
        for constant in range(0x13):
            try:
                answers.append(pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), constant).id)
            except pynvml.NVMLError as error:
                answers.append(-error.value)
        assert [19, 14, 9, 5, 0, -3, -3, 20, -3, 15, *[-3] * 8, -2] == answers
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(1), 0)
        with answer(INVALID):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(1), 0x12)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), 99)


def test_placements_are_counted_and_listed() -> None:
    """NULL asks for the number; an array, by whatever reference, is filled; also while MIG is off."""
    with seen(A100, mig=False):
        count = ctypes.c_uint(0)
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(), 14, None, ctypes.byref(count))
        assert 3 == count.value
        array = (pynvml.c_nvmlGpuInstancePlacement_t * 3)()
        for reference in (array, ctypes.byref(array), ctypes.pointer(array)):
            ctypes.memset(array, 0, ctypes.sizeof(array))
            pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(), 14, reference, ctypes.byref(count))
            assert [(0, 2), (2, 2), (4, 2)] == [(p.start, p.size) for p in array]
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(), 99, None, ctypes.byref(count))


@pytest.mark.parametrize(("start", "size"), [(1, 4), (4, 3), (8, 4), (0, 8)])
def test_impossible_places_are_argument_errors(start: int, size: int) -> None:
    """A placement that the profile does not have is invalid, not merely occupied."""
    with seen(A100), answer(INVALID):
        create_at(gpu(), 9, start, size)


def test_occupied_places_are_insufficient_resources() -> None:
    """Nothing overlaps, whichever profiles are involved."""
    with seen(A100):
        create_at(gpu(), 19, 5, 1)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            create_at(gpu(), 9, 4, 4)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            create_at(gpu(), 14, 4, 2)
        create_at(gpu(), 9, 0, 4)


def test_unknown_profiles_cannot_be_used() -> None:
    """An id of another grid is an argument error wherever something is done with it."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        array, count = (pynvml.c_nvmlGpuInstance_t * 1)(), ctypes.c_uint(1)
        with answer(INVALID):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 47)
        with answer(INVALID):
            pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 47)
        with answer(INVALID):
            pynvml.nvmlDeviceGetGpuInstances(gpu(), 47, array, ctypes.byref(count))
        with answer(INVALID):
            pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 4)


def test_instances_are_listed_by_profile_and_found_by_id() -> None:
    """Lists hold the instances of one profile; an id that is not there is not found."""
    with seen(A100):
        create_at(gpu(), 19, 6, 1)
        create_at(gpu(), 19, 0, 1)
        create_at(gpu(), 14, 4, 2)
        array, count = (pynvml.c_nvmlGpuInstance_t * 7)(), ctypes.c_uint(7)
        pynvml.nvmlDeviceGetGpuInstances(gpu(), 19, array, ctypes.byref(count))
        assert [7, 13] == [instance_id(array[index]) for index in range(count.value)]
        found = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 5))
        assert (5, 14, 4, 2) == (found.id, found.profileId, found.placement.start, found.placement.size)
        assert pynvml.nvmlDeviceGetUUID(gpu()) == pynvml.nvmlDeviceGetUUID(found.device)
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 6)
