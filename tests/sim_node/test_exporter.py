"""The simulated DCGM exporter holds slices that NVML says nobody uses."""

from __future__ import annotations

import pytest

from mig_manager.kube.kinds import DAEMON_SET, NODE
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.node.clients import EXPORTER_GATE, OPERATOR_NAMESPACE, exporter_daemon_set
from tests.sim_node.world import World


def test_slices_are_in_use_until_the_exporter_is_paused(world: World) -> None:
    """What was there when it started cannot be destroyed, what came later can; paused, it holds nothing."""
    machine = world.machine()
    old = machine.add_instance(0, "1g.10gb")
    world.node(machine)
    world.cluster.create(DAEMON_SET, exporter_daemon_set(), OPERATOR_NAMESPACE)
    world.until("the exporter to run", lambda: bool(machine.card(0).clients))
    assert not any(client.visible for client in machine.card(0).clients)
    with pytest.raises(MachineError, match="in use"):
        machine.remove_instance(0, gpu_instance=old.id)
    new = machine.add_instance(0, "1g.10gb")
    world.fleet.sync()
    machine.remove_instance(0, gpu_instance=new.id)
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {EXPORTER_GATE: "paused"}}})
    world.until("the exporter to be gone", lambda: not machine.card(0).clients)
    machine.remove_instance(0, gpu_instance=old.id)


def test_it_starts_again_with_what_is_there(world: World) -> None:
    """After a reboot the exporter holds the slices of its new start, and no pid is used twice."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.cluster.create(DAEMON_SET, exporter_daemon_set(), OPERATOR_NAMESPACE)
    world.until("the exporter to run", lambda: bool(machine.card(0).clients))
    (before,) = machine.card(0).clients
    node.power_off()
    assert not machine.card(0).clients
    node.power_on()
    machine.add_instance(0, "1g.10gb")
    world.until("the exporter to run", lambda: bool(machine.card(0).clients))
    (after,) = machine.card(0).clients
    assert before.pid != after.pid
