"""The simulated kubelet counts devices as the real one does, and forgets what the real one forgets."""

from __future__ import annotations

import pytest

from mig_manager.kube.kinds import NODE
from mig_manager.kube.podresources.client import KubeletUnreachableError
from mig_manager.sim.node.clients import PLUGIN_GATE
from tests.sim_node.world import LARGE, SMALL, World, container


def test_devices_appear_on_the_node(world: World) -> None:
    """What the plugin registers is capacity, allocatable and GetAllocatableResources."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    machine.add_instance(0, "1g.10gb")
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({SMALL: 2, LARGE: 1})
    assert {SMALL: 2, LARGE: 1} == world.devices("capacity")
    assert 3 == len(world.offered())


def test_a_plugin_that_is_gone_leaves_capacity_for_five_minutes(world: World) -> None:
    """Allocatable falls to 0 at once; capacity keeps its number, then both stay at 0 for ever."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({LARGE: 1})
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
    world.until_allocatable({})
    assert {LARGE: 1} == world.devices("capacity")
    assert {LARGE: 0} == world.devices("allocatable")
    assert set() == world.offered()
    world.clock.now += 299
    world.fleet.sync()
    assert {LARGE: 1} == world.devices("capacity")
    world.clock.now += 1
    world.fleet.sync()
    assert {LARGE: 0} == world.devices("capacity")
    world.clock.now += 10_000
    world.fleet.sync()
    assert {LARGE: 0} == world.devices("allocatable")


def test_a_name_that_is_served_no_more_is_out_of_stock(world: World) -> None:
    """After the five minutes the fit check rejects, in its own words."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({LARGE: 1})
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
    world.until_allocatable({})
    world.pod("early", container(_3g_40gb=1))
    world.until_phase("early", "Failed")
    assert "no healthy devices present" in world.status("early")["message"]
    world.clock.now += 300
    world.fleet.sync()
    world.pod("late", container(_3g_40gb=1))
    world.until_phase("late", "Failed")
    assert f"OutOf{LARGE}" == world.status("late")["reason"]


def test_a_limit_of_zero_fails_without_a_healthy_device(world: World) -> None:
    """The device manager looks at health before it looks at the number."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({LARGE: 1})
    world.pod("fine", container(_3g_40gb=0))
    world.until_phase("fine", "Running")
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
    world.until_allocatable({})
    world.pod("not", container(_3g_40gb=0))
    world.until_phase("not", "Failed")
    assert "UnexpectedAdmissionError" == world.status("not")["reason"]


def test_a_new_layout_keeps_old_names_at_zero(world: World) -> None:
    """After a repartition and the plugin's restart the old name stays, at 0 allocatable."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({LARGE: 1})
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
    world.until_allocatable({})
    machine.remove_instance(0, start=machine.card(0).instances[0].start)
    machine.add_instance(0, "1g.10gb")
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
    world.until_allocatable({SMALL: 1})
    assert {SMALL: 1, LARGE: 0} == world.devices("allocatable")
    assert {SMALL: 1, LARGE: 1} == world.devices("capacity")


def test_restart_keeps_pods_and_forgets_devices(world: World) -> None:
    """Allocatable is 0/0 until the plugin has seen the new kubelet.sock; running pods keep what they hold.

    For a moment they are not even listed: until the new kubelet has heard of its pods.
    """
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 2})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    before, plugin = world.held("p"), world.plugin_pods()[0]["metadata"]["uid"]
    node.restart_kubelet()
    assert ["kubelet.sock"] == [s.name for s in (node.root / "device-plugins").iterdir()]
    assert set() == world.offered()
    assert {} == world.listed()
    world.fleet.sync()
    assert before == world.held("p")
    world.until_allocatable({SMALL: 2})
    assert before == world.held("p")
    assert "Running" == world.phase("p")
    assert plugin == world.plugin_pods()[0]["metadata"]["uid"]
    world.pod("q", container(_1g_10gb=1))
    world.until_phase("q", "Running")
    assert before != world.held("q")


def test_without_a_kubelet_the_client_says_where_it_looked(world: World) -> None:
    """While the kubelet is away the error names the socket."""
    node = world.node(world.machine())
    client = world.ask()
    assert () == client.list()
    node.power_off()
    with pytest.raises(KubeletUnreachableError, match=r"pod-resources/kubelet\.sock: there is no such socket"):
        client.list()
    node.power_on()
    assert () == client.list()
    client.close()


def test_get_answers_for_one_pod(world: World) -> None:
    """Get finds a pod by namespace and name, and says None for one that is not here."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    with world.ask() as client:
        found = client.get("default", "p")
        assert found == world.listed()["p"]
        assert client.get("default", "q") is None


def test_an_idle_node_writes_nothing(world: World) -> None:
    """Once everything is reported, passes do not change the cluster."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    world.fleet.sync()
    before = world.store.resource_version
    world.fleet.sync()
    world.fleet.sync()
    assert before == world.store.resource_version
