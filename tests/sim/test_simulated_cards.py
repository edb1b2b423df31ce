"""Cards as unmodified nvidia-ml-py sees them."""

from __future__ import annotations

import pynvml
import pytest

from tests.sim.simulated import answer, create_at, full_device, gpu, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_cards_are_found_by_index_uuid_and_bus_id() -> None:
    """All ways lead to the same card, bus ids in any spelling."""
    with seen(A100, "A30"):
        second = gpu(1)
        uuid, bus_id = pynvml.nvmlDeviceGetUUID(second), pynvml.nvmlDeviceGetPciInfo(second).busId
        assert "00000000:17:00.0" == bus_id
        for found in (
            pynvml.nvmlDeviceGetHandleByUUID(uuid),
            pynvml.nvmlDeviceGetHandleByPciBusId(bus_id),
            pynvml.nvmlDeviceGetHandleByPciBusId("0000:17:00.0"),
            pynvml.nvmlDeviceGetHandleByPciBusId("17:00"),
        ):
            assert (1, uuid) == (pynvml.nvmlDeviceGetIndex(found), pynvml.nvmlDeviceGetUUID(found))


def test_cards_that_are_not_there_are_not_found() -> None:
    """A wrong index or an unreadable address is an argument error, an unknown UUID or address is not found."""
    with seen(A100):
        for index in (1, 99):
            with answer(INVALID):
                gpu(index)
        with answer(INVALID):
            pynvml.nvmlDeviceGetHandleByUUID("")
        with answer(INVALID):
            pynvml.nvmlDeviceGetHandleByPciBusId("seven")
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000")
        with answer(pynvml.NVML_ERROR_NOT_FOUND):
            pynvml.nvmlDeviceGetHandleByPciBusId("0000:ff:00.0")


@pytest.mark.parametrize(
    ("model", "device_id", "architecture", "capability"),
    [
        (A100, 0x20B210DE, pynvml.NVML_DEVICE_ARCH_AMPERE, (8, 0)),
        ("H100-SXM5-80GB", 0x233010DE, pynvml.NVML_DEVICE_ARCH_HOPPER, (9, 0)),
        ("B200", 0x290110DE, pynvml.NVML_DEVICE_ARCH_BLACKWELL, (10, 0)),
        ("RTX-PRO-6000-Server", 0x2BB510DE, pynvml.NVML_DEVICE_ARCH_BLACKWELL, (12, 0)),
        ("T4", 0x1EB810DE, pynvml.NVML_DEVICE_ARCH_TURING, (7, 5)),
    ],
)
def test_cards_say_what_they_are(model: str, device_id: int, architecture: int, capability: tuple[int, int]) -> None:
    """PCI id, generation and compute capability are the product's."""
    with seen(model) as machine:
        pci = pynvml.nvmlDeviceGetPciInfo(gpu())
        assert (device_id, 0, 7, 0, 0) == (pci.pciDeviceId, pci.domain, pci.bus, pci.device, pci.pciSubSystemId)
        assert "0000:07:00.0" == pci.busIdLegacy
        assert architecture == pynvml.nvmlDeviceGetArchitecture(gpu())
        assert capability == pynvml.nvmlDeviceGetCudaComputeCapability(gpu())
        assert machine.card(0).serial == pynvml.nvmlDeviceGetSerial(gpu())
        assert pynvml.NVML_FEATURE_ENABLED == pynvml.nvmlDeviceGetPersistenceMode(gpu())
        assert 0 == pynvml.nvmlDeviceGetMinorNumber(gpu())


def test_memory_adds_up_in_both_versions() -> None:
    """What the driver reserves is used in version 1 and a field of its own in version 2."""
    with seen(A100, mig=False) as machine:
        machine.hold(0, memory_mib=1000)
        one, two = pynvml.nvmlDeviceGetMemoryInfo(gpu()), pynvml.nvmlDeviceGetMemoryInfo(gpu(), pynvml.nvmlMemory_v2)
    assert 81920 * 2**20 == one.total == one.free + one.used
    assert (1000 * 2**20, one.total, one.free) == (two.used, two.total, two.free)
    assert two.total == two.free + two.used + two.reserved


@pytest.mark.parametrize(("profile_id", "size", "idle"), [(19, 1, 36), (14, 2, 71), (9, 4, 142), (0, 8, 284)])
def test_idle_slices_use_a_little_memory(profile_id: int, size: int, idle: int) -> None:
    """A slice has its profile's memory, of which an idle one uses what was seen on real cards."""
    with seen(A100) as machine:
        instance = create_at(gpu(), profile_id, 0, size)
        device = full_device(instance, {1: 0, 2: 1, 4: 2, 8: 4}[size])
        profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), profile_id)
        memory = pynvml.nvmlDeviceGetMemoryInfo(device)
        assert (profile.memorySizeMB, idle) == (memory.total >> 20, memory.used >> 20)
        machine.hold(0, start=0, memory_mib=100)
        assert idle + 100 == pynvml.nvmlDeviceGetMemoryInfo(device).used >> 20
        assert idle + 100 == pynvml.nvmlDeviceGetMemoryInfo(gpu(), pynvml.nvmlMemory_v2).used >> 20


def test_utilization_is_unknown_with_mig() -> None:
    """Utilisation is reported for a card without MIG mode only."""
    with seen(A100, "A30", mig=False) as machine:
        machine.hold(0)
        assert (100, 0) == (
            pynvml.nvmlDeviceGetUtilizationRates(gpu(0)).gpu,
            pynvml.nvmlDeviceGetUtilizationRates(gpu(1)).gpu,
        )
        pynvml.nvmlDeviceSetMigMode(gpu(1), 1)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetUtilizationRates(gpu(1))


def test_a_card_that_vanished_is_lost() -> None:
    """A handle of a removed card answers that the GPU is lost, and later cards move up."""
    with seen(A100, "A30") as machine:
        first, second = gpu(0), gpu(1)
        machine.remove_card(0)
        with answer(pynvml.NVML_ERROR_GPU_IS_LOST):
            pynvml.nvmlDeviceGetUUID(first)
        assert (1, 0) == (pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetIndex(second))


def test_memory_affinity() -> None:
    """The NUMA node of the card, as a bit of the first word, in either scope."""
    with seen("A30*2", numa=(0, 3)):
        for scope in (pynvml.NVML_AFFINITY_SCOPE_NODE, pynvml.NVML_AFFINITY_SCOPE_SOCKET):
            assert [0b1, 0] == list(pynvml.nvmlDeviceGetMemoryAffinity(gpu(0), 2, scope))
            assert [0b1000] == list(pynvml.nvmlDeviceGetMemoryAffinity(gpu(1), 1, scope))


def test_memory_affinity_that_cannot_be_told() -> None:
    """Without room or with an unknown scope it is an argument error; where nothing is known it is not supported."""
    with seen("A30"):
        for size, scope in ((0, 0), (1, 2)):
            with answer(INVALID):
                pynvml.nvmlDeviceGetMemoryAffinity(gpu(), size, scope)
        with answer(pynvml.NVML_ERROR_NOT_SUPPORTED):
            pynvml.nvmlDeviceGetMemoryAffinity(gpu(), 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
