"""MIG mode, reset and reboot per generation of cards."""

from __future__ import annotations

import pynvml
import pytest

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from tests.sim.simulated import answer, create_at, gpu, seen

AMPERE, SWITCHED, HOPPER = "A100-PCIE-80GB", "A100-SXM4-80GB", "H100-SXM5-80GB"
SUCCESS, IN_USE, NOT_SUPPORTED = 0, pynvml.NVML_ERROR_IN_USE, pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize("model", [AMPERE, HOPPER, "A30", "B200", "RTX-PRO-6000-Server"])
def test_an_idle_card_changes_its_mode_at_once(model: str) -> None:
    """With nothing on the card, the new mode is current when the call returns, and back again."""
    with seen(model, mig=False):
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu())
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(), 0)
        assert [0, 0] == pynvml.nvmlDeviceGetMigMode(gpu())


@pytest.mark.parametrize("model", [AMPERE, HOPPER])
def test_a_busy_card_changes_only_what_is_pending(model: str) -> None:
    """In use is the activation status, not an error; asking for the current mode takes the wish back."""
    with seen(model, mig=False) as machine:
        machine.hold(0)
        assert IN_USE == pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert [0, 1] == pynvml.nvmlDeviceGetMigMode(gpu())
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(), 0)
        assert [0, 0] == pynvml.nvmlDeviceGetMigMode(gpu())


@pytest.mark.parametrize("model", [AMPERE, HOPPER])
def test_disabling_with_instances_destroys_none(model: str) -> None:
    """The driver takes no instance away; the mode stays until they are gone."""
    with seen(model) as machine:
        create_at(gpu(), 9, 0, 4)
        assert IN_USE == pynvml.nvmlDeviceSetMigMode(gpu(), 0)
        assert [1, 0] == pynvml.nvmlDeviceGetMigMode(gpu())
        assert 1 == len(machine.card(0).instances)
        machine.remove_instance(0, start=0)
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(), 0)


def test_a_passed_through_card_waits_for_the_reboot() -> None:
    """In a virtual machine an Ampere card cannot be reset: pending until the machine restarts."""
    with seen(AMPERE, mig=False) as machine:
        with machine.change() as state:
            state.cards[0].passthrough = True
        assert NOT_SUPPORTED == pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        with pytest.raises(MachineError, match="resetting GPU 0: not supported"):
            machine.reset(0)
        assert [0, 1] == pynvml.nvmlDeviceGetMigMode(gpu())
        machine.reboot()
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu())


def test_a_passed_through_hopper_needs_no_reset() -> None:
    """Where a mode change needs no reset, passing the card through forbids nothing."""
    with seen(HOPPER, mig=False) as machine:
        with machine.change() as state:
            state.cards[0].passthrough = True
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert [machine.card(0).uuid] == machine.reset(0)


def test_cards_without_mig_have_no_mode() -> None:
    """Reading and changing are not supported, and other values than 0 and 1 are no modes."""
    with seen("T4", AMPERE) as machine:
        with answer(NOT_SUPPORTED):
            pynvml.nvmlDeviceGetMigMode(gpu())
        with answer(NOT_SUPPORTED):
            pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        with answer(pynvml.NVML_ERROR_INVALID_ARGUMENT):
            pynvml.nvmlDeviceSetMigMode(gpu(1), 2)
        with pytest.raises(MachineError, match="changing MIG mode of GPU 0: not supported"):
            machine.set_mig(0, enabled=True)


def test_ampere_cards_of_a_board_are_reset_together() -> None:
    """Use of one card of an NVSwitch board keeps all others from changing their mode."""
    with seen(SWITCHED, SWITCHED, AMPERE, mig=False) as machine:
        machine.hold(1)
        assert IN_USE == pynvml.nvmlDeviceSetMigMode(gpu(0), 1)
        assert SUCCESS == pynvml.nvmlDeviceSetMigMode(gpu(2), 1)
        with pytest.raises(MachineError, match="resetting GPU 0: in use by another client"):
            machine.reset(0)
        machine.free(1)
        assert [machine.card(0).uuid, machine.card(1).uuid] == machine.reset(0)
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu(0))
        assert [0, 0] == pynvml.nvmlDeviceGetMigMode(gpu(1))


def test_instances_of_a_neighbour_keep_a_board_from_being_reset_by_the_driver() -> None:
    """A mode change never takes away instances on another card; a reset by hand does."""
    with seen(SWITCHED, SWITCHED, mig=False) as machine:
        machine.set_mig(1, enabled=True)
        create_at(gpu(1), 9, 0, 4)
        assert IN_USE == pynvml.nvmlDeviceSetMigMode(gpu(0), 1)
        assert 1 == len(machine.card(1).instances)
        machine.reset(0)
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu(0))
        assert [] == machine.card(1).instances


@pytest.mark.parametrize(
    ("gpus", "groups"),
    [
        ([SWITCHED, "A30"], ["", ""]),
        ([SWITCHED, SWITCHED, "A30"], ["nvswitch0", "nvswitch0", ""]),
        ([HOPPER, HOPPER], ["", ""]),
    ],
)
def test_only_ampere_boards_are_reset_as_a_whole(gpus: list[str], groups: list[str]) -> None:
    """Newer boards are reset card by card, and one card alone is no board."""
    assert groups == [c.reset_group for c in Machine.create(None, gpus).read().cards]


def test_a_reset_destroys_instances_and_nothing_in_use() -> None:
    """Out of band, idle instances go and pending becomes current; a process forbids it."""
    with seen(AMPERE) as machine:
        machine.add_instance(0, "3g", start=4)
        machine.hold(0, start=4)
        with pytest.raises(MachineError, match="in use"):
            machine.reset(0)
        machine.free(0)
        pynvml.nvmlDeviceSetMigMode(gpu(), 0)
        machine.reset(0)
        assert [] == machine.card(0).instances
        assert [0, 0] == pynvml.nvmlDeviceGetMigMode(gpu())


@pytest.mark.parametrize(("model", "mode"), [(AMPERE, [1, 1]), ("A30", [1, 1]), (HOPPER, [0, 0]), ("B200", [0, 0])])
def test_a_reboot_keeps_the_mode_on_ampere_only(model: str, mode: list[int]) -> None:
    """Instances and processes survive nowhere, the mode in the InfoROM of Ampere cards."""
    with seen(model) as machine:
        machine.add_instance(0, "2g")
        machine.hold(0, start=machine.card(0).instances[0].start)
        before = machine.read().boot_id
        assert before != machine.reboot()
        assert mode == pynvml.nvmlDeviceGetMigMode(gpu())
        assert ([], []) == (machine.card(0).instances, machine.card(0).clients)


@pytest.mark.parametrize(("model", "mode"), [(AMPERE, [1, 1]), (HOPPER, [0, 0])])
def test_a_driver_that_is_loaded_anew_is_like_a_reboot_of_the_cards(model: str, mode: list[int]) -> None:
    """Mode and instances go as with a reboot, the boot stays the same, and nothing in use is lost by it."""
    machine = Machine.create(None, [model], mig=True)
    boot_id = machine.read().boot_id
    machine.add_instance(0, "3g", start=0)
    machine.hold(0, start=0)
    with pytest.raises(MachineError, match="unloading the driver: in use by another client"):
        machine.reload_driver()
    machine.free(0)
    machine.reload_driver()
    card = machine.card(0)
    assert (mode, []) == ([int(card.mig_current), int(card.mig_pending)], card.instances)
    assert boot_id == machine.read().boot_id


def test_a_reboot_can_renumber_the_device_files() -> None:
    """Minor numbers belong to probing order, UUIDs and bus ids to the cards."""
    with seen(AMPERE, "A30") as machine:
        uuids = [c.uuid for c in machine.read().cards]
        machine.reboot(renumber_minors=True)
        assert [1, 0] == [pynvml.nvmlDeviceGetMinorNumber(gpu(i)) for i in range(2)]
        assert uuids == [pynvml.nvmlDeviceGetUUID(gpu(i)) for i in range(2)]


def test_the_first_instance_needs_the_memory_that_processes_hold() -> None:
    """A process that holds memory of the whole card keeps the first instance from being made, a monitor does not."""
    with seen(AMPERE) as machine:
        machine.hold(0, name="monitor", memory_mib=0)
        machine.hold(0, memory_mib=10, pid=20)
        with answer(IN_USE):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 9)
        machine.free(0, pid=20)
        pynvml.nvmlDeviceCreateGpuInstance(gpu(), 9)
        machine.hold(0, memory_mib=10)
        pynvml.nvmlDeviceCreateGpuInstance(gpu(), 9)
