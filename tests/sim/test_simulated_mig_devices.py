"""MIG devices and the processes on them as unmodified nvidia-ml-py sees them."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from mig_manager.sim.model.state import Quirks
from tests.sim.simulated import answer, create_at, full_device, gpu, raw, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_mig_devices_are_numbered_by_gpu_instance_and_compute_instance() -> None:
    """The index follows the ids, not the order of creation; past the last there is nothing."""
    with seen(A100):
        small = create_at(gpu(), 19, 6, 1)
        full_device(small, 0)
        large = create_at(gpu(), 9, 0, 4)
        full_device(large, 0)
        full_device(large, 0)
        devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), index) for index in range(3)]
        assert [(1, 0), (1, 1), (13, 0)] == [
            (pynvml.nvmlDeviceGetGpuInstanceId(d), pynvml.nvmlDeviceGetComputeInstanceId(d)) for d in devices
        ]
        assert 7 == pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu())
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 3)


def test_indices_can_have_gaps() -> None:
    """With the quirk, an index belongs to a place, so callers must tolerate holes."""
    with seen(A100, quirks=Quirks(gapped_mig_indices=True)):
        full_device(create_at(gpu(), 19, 6, 1), 0)
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
        found = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 6)
        assert 13 == pynvml.nvmlDeviceGetGpuInstanceId(found)


def test_a_gpu_instance_without_compute_instance_is_no_device() -> None:
    """Only compute instances can be run on."""
    with seen(A100):
        create_at(gpu(), 9, 0, 4)
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)


def test_mig_devices_know_their_card_and_have_a_uuid() -> None:
    """A MIG device is found by its UUID and leads back to its card."""
    with seen(A100, A100):
        full_device(create_at(gpu(0), 19, 0, 1), 0)
        device = full_device(create_at(gpu(1), 9, 4, 4), 2)
        uuid = pynvml.nvmlDeviceGetUUID(device)
        again = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        assert uuid.startswith("MIG-")
        assert pynvml.nvmlDeviceIsMigDeviceHandle(again).value
        assert not pynvml.nvmlDeviceIsMigDeviceHandle(gpu(1)).value
        assert 1 == pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(again))


def test_the_same_place_has_the_same_uuid_again() -> None:
    """A UUID does not prove that a slice was not made anew; another place has another one."""
    with seen(A100) as machine:
        first = pynvml.nvmlDeviceGetUUID(full_device(create_at(gpu(), 9, 4, 4), 2))
        machine.remove_instance(0, start=4)
        again = pynvml.nvmlDeviceGetUUID(full_device(create_at(gpu(), 9, 4, 4), 2))
        other = pynvml.nvmlDeviceGetUUID(full_device(create_at(gpu(), 9, 0, 4), 2))
    assert first == again != other


def test_attributes_are_those_of_both_instances() -> None:
    """A MIG device has the memory and engines of its GPU instance and its own multiprocessors."""
    with seen(A100):
        found = pynvml.nvmlDeviceGetAttributes(full_device(create_at(gpu(), 9, 0, 4), 0))
        assert (14, 3, 2, 0, 0, 0, 3, 1, 40192) == tuple(getattr(found, name) for name, _ in found._fields_)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetAttributes(gpu())


@pytest.mark.parametrize(
    "ask",
    [
        pynvml.nvmlDeviceGetGpuInstanceId,
        pynvml.nvmlDeviceGetComputeInstanceId,
        pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle,
    ],
)
def test_questions_to_mig_devices_are_refused_for_cards(ask: Any) -> None:  # noqa: ANN401 - a function of pynvml
    """A card has no instance ids and no parent."""
    with seen(A100), answer(INVALID):
        ask(gpu())


@pytest.mark.parametrize(
    "ask",
    [
        pynvml.nvmlDeviceGetIndex,
        pynvml.nvmlDeviceGetMinorNumber,
        pynvml.nvmlDeviceGetPciInfo,
        pynvml.nvmlDeviceGetMigMode,
        pynvml.nvmlDeviceGetMaxMigDeviceCount,
    ],
)
def test_questions_to_cards_are_refused_for_mig_devices(ask: Any) -> None:  # noqa: ANN401 - a function of pynvml
    """A MIG device has no index, address or mode of its own."""
    with seen(A100):
        device = full_device(create_at(gpu(), 9, 0, 4), 2)
        with answer(INVALID):
            ask(device)


def test_processes_are_listed_on_the_card_and_on_their_slice() -> None:
    """The card lists everybody with instance ids, a MIG device its own; hidden clients are nowhere."""
    with seen(A100) as machine:
        one = full_device(create_at(gpu(), 9, 0, 4), 2)
        other = full_device(create_at(gpu(), 19, 6, 1), 0)
        machine.hold(0, start=0, pid=10, memory_mib=2)
        machine.hold(0, pid=11, name="monitor", memory_mib=0)
        machine.hold(0, start=6, pid=12, visible=False)
        machine.hold(0, start=6, pid=13, kind="graphics")
        machine.hold(0, start=6, pid=14, kind="mps")
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())
        assert [(10, 1, 0, 2 << 20), (11, 0xFFFFFFFF, 0xFFFFFFFF, 0)] == [
            (p.pid, p.gpuInstanceId, p.computeInstanceId, p.usedGpuMemory) for p in found
        ]
        assert [10] == [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(one)]
        assert [] == pynvml.nvmlDeviceGetComputeRunningProcesses(other)
        assert [13] == [p.pid for p in pynvml.nvmlDeviceGetGraphicsRunningProcesses(other)]
        assert [14] == [p.pid for p in pynvml.nvmlDeviceGetMPSComputeRunningProcesses(gpu())]
        assert [10, 11] == [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu())]


def test_process_lists_say_how_much_room_they_need() -> None:
    """Too small an array gives insufficient size and the number; NULL with room for all is an argument error."""
    with seen(A100, mig=False) as machine:
        machine.hold(0)
        count = ctypes.c_uint(0)
        symbol = "nvmlDeviceGetComputeRunningProcesses_v3"
        assert pynvml.NVML_ERROR_INSUFFICIENT_SIZE == raw(symbol, gpu(), ctypes.byref(count), None)
        assert 1 == count.value
        assert INVALID == raw(symbol, gpu(), ctypes.byref(count), None)
