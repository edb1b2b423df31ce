"""Compute instances of the simulated driver."""

from __future__ import annotations

import ctypes

import pynvml
import pytest

from tests.sim.simulated import Handle, answer, create_at, gpu, seen

A100 = "A100-SXM4-80GB"


def compute_at(instance: Handle, profile_id: int, start: int, size: int) -> int:
    placement = pynvml.c_nvmlComputeInstancePlacement_t(start, size)
    created = pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, profile_id, ctypes.byref(placement))
    return int(pynvml.nvmlComputeInstanceGetInfo(created).id)


@pytest.mark.parametrize(
    ("profile_id", "size", "expected"),
    [
        (19, 1, {0: (1, 14)}),
        (14, 2, {0: (2, 14), 1: (1, 28)}),
        (9, 4, {0: (3, 14), 1: (1, 28), 2: (1, 42)}),
        (5, 4, {0: (4, 14), 1: (2, 28), 3: (1, 56)}),
        (0, 8, {0: (7, 14), 1: (3, 28), 2: (2, 42), 3: (1, 56), 4: (1, 98)}),
    ],
)
def test_profiles_are_those_of_an_a100(profile_id: int, size: int, expected: dict[int, tuple[int, int]]) -> None:
    """Each GPU instance offers the widths that nvidia-smi mig -lcip showed; there is no 3c in a 4g."""
    with seen(A100):
        instance = create_at(gpu(), profile_id, 0, size)
        found = {}
        for constant in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, constant, 0)
            except pynvml.NVMLError_NotSupported:
                continue
            plain = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, constant, 0, version=1)
            assert plain.instanceCount == info.instanceCount
            found[info.id] = (info.instanceCount, info.multiprocessorCount)
    assert expected == found


def test_profiles_share_the_engines_and_carry_their_name() -> None:
    """All compute instances of a GPU instance share its engines."""
    with seen(A100):
        info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(create_at(gpu(), 9, 0, 4), 1, 0)
    assert "MIG 2c.3g.40gb" == info.name
    assert (2, 3, 2, 0, 0, 0) == (
        info.sliceCount,
        info.sharedCopyEngineCount,
        info.sharedDecoderCount,
        info.sharedEncoderCount,
        info.sharedJpegCount,
        info.sharedOfaCount,
    )


@pytest.mark.parametrize(("constant", "engines"), [(9, 0), (0, 1)])
def test_profiles_end_at_the_last_constant(constant: int, engines: int) -> None:
    """One past the last profile or engine profile is an argument error."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        with answer(pynvml.NVML_ERROR_INVALID_ARGUMENT):
            pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, constant, engines)


def test_capacity_after_one_of_four() -> None:
    """After one 1c in a 4g there is room for three 1c, one 2c and no 4c, as a posted log shows."""
    with seen(A100):
        instance = create_at(gpu(), 5, 0, 4)
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
        capacity = pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity
        assert [3, 1, 0] == [capacity(instance, profile_id) for profile_id in (0, 1, 3)]


def test_ids_count_from_the_lowest_free() -> None:
    """A gap in the ids is filled first."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        created = [pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0) for _ in range(3)]
        ids = [pynvml.nvmlComputeInstanceGetInfo(c).id for c in created]
        pynvml.nvmlComputeInstanceDestroy(created[1])
        again = pynvml.nvmlComputeInstanceGetInfo(pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0))
    assert ([0, 1, 2], 1) == (ids, again.id)
    assert 0 == again.placement.start  # the second one was there, to keep a 2c possible


def test_mig_indices_follow_the_ids_also_after_a_gap_was_filled() -> None:
    """A compute instance that got a lower id later comes before those with higher ids."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        created = [pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0) for _ in range(3)]
        pynvml.nvmlComputeInstanceDestroy(created[0])
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
        devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), index) for index in range(3)]
        assert [0, 1, 2] == [pynvml.nvmlDeviceGetComputeInstanceId(d) for d in devices]


def test_4c_and_3c_share_a_7g() -> None:
    """Explicit placements are taken literally and do not overlap."""
    with seen(A100):
        instance = create_at(gpu(), 0, 0, 8)
        assert 0 == compute_at(instance, 3, 0, 4)
        assert 1 == compute_at(instance, 2, 4, 3)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            compute_at(instance, 2, 0, 3)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)


def test_impossible_places_are_argument_errors() -> None:
    """A start that the profile does not have is invalid."""
    with seen(A100):
        instance = create_at(gpu(), 5, 0, 4)
        with answer(pynvml.NVML_ERROR_INVALID_ARGUMENT):
            compute_at(instance, 1, 1, 2)


def test_places_are_listed_in_slices_of_the_instance() -> None:
    """Placements count from the GPU instance's own first compute slice."""
    with seen(A100):
        instance = create_at(gpu(), 14, 4, 2)
        array, count = (pynvml.c_nvmlComputeInstancePlacement_t * 2)(), ctypes.c_uint(0)
        pynvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, 0, array, ctypes.byref(count))
        assert [(0, 1), (1, 1)] == [(p.start, p.size) for p in array[: count.value]]


def test_instances_are_listed_by_profile_and_found_by_id() -> None:
    """Lists hold one profile's; an id that is not there is not found; particulars lead back up."""
    with seen(A100):
        instance = create_at(gpu(), 9, 0, 4)
        compute_at(instance, 1, 0, 2)
        compute_at(instance, 0, 2, 1)
        array, count = (pynvml.c_nvmlComputeInstance_t * 3)(), ctypes.c_uint(3)
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, 0, array, ctypes.byref(count))
        assert [1] == [pynvml.nvmlComputeInstanceGetInfo(array[i]).id for i in range(count.value)]
        info = pynvml.nvmlComputeInstanceGetInfo(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 1))
        assert (1, 0, 2, 1) == (info.id, info.profileId, info.placement.start, info.placement.size)
        assert 1 == pynvml.nvmlGpuInstanceGetInfo(info.gpuInstance).id
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 2)


def test_what_is_used_cannot_be_destroyed() -> None:
    """A compute instance with a process, a GPU instance with compute instances or a hidden client: all in use."""
    with seen(A100) as machine:
        instance = create_at(gpu(), 9, 0, 4)
        compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
        machine.hold(0, start=0)
        with answer(pynvml.NVML_ERROR_IN_USE):
            pynvml.nvmlComputeInstanceDestroy(compute)
        machine.free(0)
        with answer(pynvml.NVML_ERROR_IN_USE):
            pynvml.nvmlGpuInstanceDestroy(instance)
        pynvml.nvmlComputeInstanceDestroy(compute)
        machine.hold(0, start=0, visible=False)
        with answer(pynvml.NVML_ERROR_IN_USE):
            pynvml.nvmlGpuInstanceDestroy(instance)
        machine.free(0)
        pynvml.nvmlGpuInstanceDestroy(instance)
        assert [] == machine.card(0).instances


def test_a_process_uses_one_compute_instance_only() -> None:
    """The neighbour in the same GPU instance can go."""
    with seen(A100) as machine:
        instance = create_at(gpu(), 9, 0, 4)
        first = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
        second = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
        machine.hold(0, start=0, compute_instance=1)
        pynvml.nvmlComputeInstanceDestroy(first)
        with answer(pynvml.NVML_ERROR_IN_USE):
            pynvml.nvmlComputeInstanceDestroy(second)
