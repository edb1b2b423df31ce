"""Nodes reboot, vanish and come back, and several live in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager.kube.errors import NotFoundError, UnavailableError
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.memory import MemoryCluster, Store
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.rpc import SocketPathError
from tests.sim_node.world import LARGE, SMALL, World, container, open_sockets, until


def ready(world: World, name: str = "n1") -> str:
    conditions = world.cluster.get(NODE, name)["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")


def test_reboot_of_ampere_loses_slices(world: World) -> None:
    """After a reboot: a new boot id, mode kept, no slice, pods with slices rejected, the plugin's pod the same."""
    machine = world.machine("A100-SXM4-80GB")
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("slice", container(_1g_10gb=1))
    world.pod("plain", container())
    world.until_phase("slice", "Running")
    boot, plugin = world.cluster.get(NODE, "n1")["status"]["nodeInfo"]["bootID"], world.plugin_pods()[0]
    node.power_off()
    assert "Unknown" == ready(world)
    assert [] == open_sockets(world.fleet.directory)
    world.fleet.sync()
    assert "Unknown" == ready(world)
    node.power_on()
    world.until("the node to be ready", lambda: ready(world) == "True")
    assert boot != world.cluster.get(NODE, "n1")["status"]["nodeInfo"]["bootID"]
    assert {} == world.allocatable()
    assert machine.card(0).mig_current
    world.until_phase("slice", "Failed")
    assert "UnexpectedAdmissionError" == world.status("slice")["reason"]
    assert "Running" == world.phase("plain")
    assert plugin["metadata"]["uid"] == world.plugin_pods()[0]["metadata"]["uid"]


def test_reboot_of_hopper_loses_the_mode(world: World) -> None:
    """A Hopper card comes back without MIG, so the plugin offers it whole."""
    machine = world.machine("H100-SXM5-80GB")
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    node.reboot()
    world.until_allocatable({"nvidia.com/gpu": 1})
    assert "True" == ready(world)


def test_a_recreated_node_is_another(world: World) -> None:
    """Same name, another UID, other cards, none of the old pods and names."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    before = world.cluster.get(NODE, "n1")["metadata"]["uid"]
    other = world.machine("A100-SXM4-80GB", seed="other")
    other.add_instance(0, "3g.40gb")
    node.recreate(other)
    world.until_allocatable({LARGE: 1})
    assert before != world.cluster.get(NODE, "n1")["metadata"]["uid"]
    assert {LARGE: 1} == world.devices("capacity")
    assert "Gone" == world.phase("p")
    assert not machine.card(0).clients


def test_a_removed_node_can_come_back(world: World) -> None:
    """Without its node nothing is left in the cluster; started again, it registers anew."""
    node = world.node(world.machine())
    world.until("the plugin to run", lambda: bool(world.plugin_pods()))
    node.remove()
    world.fleet.sync()
    with pytest.raises(NotFoundError):
        world.cluster.get(NODE, "n1")
    assert () == world.cluster.list(POD).items
    node.start()
    world.until("the plugin to run", lambda: bool(world.plugin_pods()))
    assert "True" == ready(world)


def test_a_node_whose_object_is_deleted_keeps_its_pods_running(world: World) -> None:
    """Deleting the Node object ends no process; a new Node object is reported on as soon as it is there."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    world.cluster.delete(NODE, "n1")
    world.fleet.sync()
    assert machine.card(0).clients
    node.power_off()
    node.power_on()
    world.cluster.create(NODE, {"metadata": {"name": "n1"}})
    world.until("the node to be ready", lambda: bool(world.cluster.get(NODE, "n1").get("status")))
    assert "True" == ready(world)


def test_starting_takes_over_a_node_that_is_there(world: World) -> None:
    """A simulation that starts again finds its Nodes, and what people wrote on them stays."""
    world.cluster.create(NODE, {"metadata": {"name": "n1", "labels": {"pool": "a"}}, "spec": {"unschedulable": True}})
    world.node(world.machine())
    node = world.cluster.get(NODE, "n1")
    assert "a" == node["metadata"]["labels"]["pool"]
    assert "n1" == node["metadata"]["labels"]["kubernetes.io/hostname"]
    assert node["spec"]["unschedulable"]
    assert "True" == ready(world)


def test_leftovers_of_a_killed_simulation_end(world: World, tmp_path: Path) -> None:
    """Processes that nobody looks after any more do not hold slices for ever; those of other people stay."""
    machine = Machine.create(tmp_path / "machine", ["A100-SXM4-80GB"], mig=True)
    machine.add_instance(0, "1g.10gb")
    stranger = machine.hold(0, start=machine.card(0).instances[0].start)
    with Fleet(MemoryCluster(Store(), "killed"), clock=world.clock) as killed:
        killed.add("n1", machine).kubelet._processes.start("default/p", "uid", [machine.card(0).uuid])
        assert 2 == len(machine.card(0).clients)
    world.node(machine)
    assert [stranger] == machine.card(0).clients


def test_a_machine_in_a_file_is_shared(world: World, tmp_path: Path) -> None:
    """Another process that opens the file sees what pods hold, and its changes are what the plugin sees."""
    machine = Machine.create(tmp_path / "machine", ["A100-SXM4-80GB"], mig=True)
    other = Machine.open(tmp_path / "machine")
    other.add_instance(0, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    assert ["default/p"] == [c.name for c in other.card(0).clients]


def test_a_name_is_used_once(world: World) -> None:
    """A second node of the same name would take the first one's place."""
    world.node(world.machine())
    with pytest.raises(ValueError, match="there is a simulated node n1 already"):
        world.node(world.machine())


def test_nodes_do_not_mix(world: World) -> None:
    """Every node has its own sockets, devices and pods."""
    for index in range(3):
        machine = world.machine(seed=str(index))
        for _ in range(index + 1):
            machine.add_instance(0, "1g.10gb")
        world.node(machine, name=f"n{index}")
    for index in range(3):
        world.until_allocatable({SMALL: index + 1}, f"n{index}")
    world.pod("p", container(_1g_10gb=1), node="n2")
    world.until_phase("p", "Running")
    assert ["p"] == [name for name in world.listed("n2") if name == "p"]
    assert "p" not in world.listed("n1")
    assert set().union(*(world.offered(f"n{i}") for i in range(3)))
    assert 6 == len(set().union(*(world.offered(f"n{i}") for i in range(3))))


def test_a_thread_makes_the_passes(world: World) -> None:
    """With run() nobody needs to call sync; an API that is away for a while is no reason to stop."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    world.node(machine)
    failures = [3]

    def fail_at_first(_: object) -> None:
        if failures[0]:
            failures[0] -= 1
            raise UnavailableError("listing nodes", "connection refused")

    assert isinstance(world.cluster, MemoryCluster)
    world.cluster.before = fail_at_first
    world.fleet.run(interval_s=0.01)
    until("the devices", lambda: failures == [0] and world.allocatable() == {SMALL: 1})


def test_what_ends_the_thread_is_raised() -> None:
    """A mistake in a pass is not swallowed: stop() raises it."""
    cluster = MemoryCluster(Store(), "kubelet")
    fleet = Fleet(cluster)

    def break_down(_: object) -> None:
        raise ValueError("broken")

    cluster.before = break_down
    fleet.run(interval_s=0.001)
    until("the thread to end", lambda: not fleet.running)
    with pytest.raises(ValueError, match="broken"):
        fleet.stop()


def test_a_long_directory_is_refused_with_a_reason(tmp_path: Path) -> None:
    """A unix socket's path has its limit; the error says what is too long."""
    long = tmp_path / ("d" * 100)
    with (
        Fleet(MemoryCluster(Store(), "kubelet"), directory=long) as fleet,
        pytest.raises(SocketPathError, match="too long for a unix socket; choose a shorter directory"),
    ):
        fleet.add("n1", Machine.create(None, ["T4"]))
