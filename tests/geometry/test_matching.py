"""Which cards an entry is for."""

import pytest

from mig_manager.geometry.cards import find_product
from mig_manager.geometry.layout import DeviceId, Match
from mig_manager.geometry.matching import matches, normalise_bus_id
from mig_manager.geometry.state import Card

CARD = Card(
    index=3,
    uuid="GPU-3",
    model="A100-PCIE-80GB",
    name="NVIDIA A100 80GB PCIe",
    device_id=0x20B5,
    bus_id="00000000:3B:00.0",
    memory_mib=81920,
    mig_current=True,
    mig_pending=True,
    table=find_product("A100-PCIE-80GB").table,
    subsystem_id=0x153310DE,
)


@pytest.mark.parametrize(
    "match",
    [
        None,
        Match(),
        Match(models=("H200", "A100-PCIE-80GB")),
        Match(models=("nvidia a100 80gb pcie",)),
        Match(device_ids=(DeviceId(0x20B5),)),
        Match(device_ids=(DeviceId(0x20B5, subsystem=0x153310DE),)),
        Match(bus_ids=("0000:3b:00.0",)),
        Match(bus_ids=("3B:00.0",)),
        Match(uuids=("GPU-0", "GPU-3")),
        Match(indices=(0, 3)),
        Match(memory_mib=81559),
        Match(compute_slices=7),
        Match(models=("A100-PCIE-80GB",), indices=(3,)),
    ],
)
def test_a_card_matches_by_each_of_its_properties(match: Match | None) -> None:
    """One value of each filled field must hold."""
    assert matches(CARD, match)


@pytest.mark.parametrize(
    "match",
    [
        Match(models=("A100-SXM4-80GB",)),
        Match(device_ids=(DeviceId(0x20B2),)),
        Match(device_ids=(DeviceId(0x20B5, vendor=0x1002),)),
        Match(device_ids=(DeviceId(0x20B5, subsystem=0x147F10DE),)),
        Match(bus_ids=("0000:3c:00.0",)),
        Match(uuids=("GPU-33",)),
        Match(indices=(0,)),
        Match(memory_mib=40960),
        Match(compute_slices=4),
        Match(models=("A100-PCIE-80GB",), indices=(0,)),
    ],
)
def test_every_filled_field_must_hold(match: Match) -> None:
    """A card that differs in one of them is not meant."""
    assert not matches(CARD, match)


def test_pci_addresses_are_compared_as_the_kernel_writes_them() -> None:
    """NVML pads the domain, people leave it out."""
    assert {"0000:3b:00.0"} == {normalise_bus_id(i) for i in ("00000000:3B:00.0", "3b:00.0", " 0:3b:00.0")}
