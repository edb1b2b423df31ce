"""The simulated device plugin enumerates, crashes and lies as NVIDIA's does."""

from __future__ import annotations

import pytest

from mig_manager.kube.kinds import DAEMON_SET, NODE, POD
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, PLUGIN_DAEMON_SET, PLUGIN_GATE
from mig_manager.sim.node.plugin_devices import PluginCrash, Strategy, enumerate_devices
from tests.sim_node.world import LARGE, SMALL, World, container, open_sockets

GPU = "nvidia.com/gpu"


def machine_of(*gpus: str, mig: bool = True) -> Machine:
    return Machine.create(None, gpus, mig=mig)


def counts(machine: Machine, strategy: Strategy) -> dict[str, int]:
    found = enumerate_devices(machine.read(), strategy).resources
    return {resource: len(ids) for resource, ids in found.items()}


# -- strategy none --


@pytest.mark.parametrize("mig", [False, True])
def test_none_lists_every_card_whole(mig: bool) -> None:
    """Also a card with MIG on, with slices or without, is one nvidia.com/gpu."""
    machine = machine_of("A100-SXM4-80GB*2", mig=mig)
    if mig:
        machine.add_instance(0, "1g.10gb")
    assert {GPU: 2} == counts(machine, Strategy.NONE)
    ids = enumerate_devices(machine.read(), Strategy.NONE).resources[GPU]
    assert tuple(c.uuid for c in machine.read().cards) == ids


# -- strategy single --


def test_single_calls_every_slice_a_gpu() -> None:
    """Equal slices everywhere are so many nvidia.com/gpu, by MIG UUID."""
    machine = machine_of("A100-SXM4-80GB*2")
    for gpu in (0, 0, 1):
        machine.add_instance(gpu, "3g.40gb")
    assert {GPU: 3} == counts(machine, Strategy.SINGLE)
    assert all(i.startswith("MIG-") for i in enumerate_devices(machine.read(), Strategy.SINGLE).resources[GPU])


def test_single_without_mig_lists_whole_cards() -> None:
    """Where MIG is off everywhere, cards are cards."""
    assert {GPU: 2} == counts(machine_of("A100-SXM4-80GB*2", mig=False), Strategy.SINGLE)


def test_single_dies_of_an_empty_card() -> None:
    """One card with MIG on and no slice takes the plugin down, and with it all devices of the node."""
    machine = machine_of("A100-SXM4-80GB*2")
    machine.add_instance(0, "3g.40gb")
    with pytest.raises(PluginCrash, match="device 1 has no MIG devices"):
        enumerate_devices(machine.read(), Strategy.SINGLE)


def test_single_dies_of_a_gpu_instance_without_compute_instance() -> None:
    """A GPU instance alone is no device."""
    machine = machine_of("A100-SXM4-80GB")
    machine.add_instance(0, "3g.40gb", compute_widths=())
    with pytest.raises(PluginCrash, match="device 0 has no MIG devices"):
        enumerate_devices(machine.read(), Strategy.SINGLE)


def test_single_dies_of_uneven_mode() -> None:
    """All cards must have MIG on, or none; a card without MIG counts as off."""
    machine = machine_of("A30", "T4")
    machine.add_instance(0, "1g.6gb")
    with pytest.raises(PluginCrash, match="same migEnabled value"):
        enumerate_devices(machine.read(), Strategy.SINGLE)


def test_single_dies_of_uneven_slices() -> None:
    """Slices of two sizes are one too many, be it on one card or on two."""
    machine = machine_of("A100-SXM4-80GB*2")
    machine.add_instance(0, "3g.40gb")
    machine.add_instance(1, "1g.10gb")
    with pytest.raises(PluginCrash, match="more than one MIG device type present on node"):
        enumerate_devices(machine.read(), Strategy.SINGLE)


def test_single_takes_uniform_small_compute_instances() -> None:
    """1c.3g everywhere is fine under single."""
    machine = machine_of("A100-SXM4-80GB")
    machine.add_instance(0, "3g.40gb", compute_widths=(1, 1, 1))
    assert {GPU: 3} == counts(machine, Strategy.SINGLE)


# -- strategy mixed --


def test_mixed_names_resources_after_profiles() -> None:
    """Every profile is a resource of its own, + written as a dot; cards without MIG are whole."""
    machine = machine_of("A100-SXM4-80GB*2", "T4")
    machine.add_instance(0, "1g.10gb+me")
    machine.add_instance(0, "1g.10gb")
    machine.add_instance(1, "3g.40gb")
    expected = {"nvidia.com/mig-1g.10gb.me": 1, SMALL: 1, LARGE: 1, GPU: 1}
    assert expected == counts(machine, Strategy.MIXED)


def test_mixed_only_warns_of_an_empty_card() -> None:
    """An empty card contributes nothing and harms nobody."""
    machine = machine_of("A100-SXM4-80GB*2")
    machine.add_instance(0, "3g.40gb")
    found = enumerate_devices(machine.read(), Strategy.MIXED)
    assert [LARGE] == list(found.resources)
    assert ["device 1 (NVIDIA A100-SXM4-80GB) has no MIG devices configured"] == found.warnings


def test_mixed_dies_of_small_compute_instances() -> None:
    """A compute instance smaller than its GPU instance matches no resource."""
    machine = machine_of("A100-SXM4-80GB")
    machine.add_instance(0, "3g.40gb", compute_widths=(1, 2))
    with pytest.raises(PluginCrash, match=r"1c\.3g\.40gb on device 0 matches no resource"):
        enumerate_devices(machine.read(), Strategy.MIXED)


# -- the program --


def test_a_layout_change_goes_unnoticed(world: World) -> None:
    """What is advertised stays as it was until the plugin restarts: destroyed slices, and none of the new ones."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    world.until_allocatable({LARGE: 1})
    before = world.offered()
    machine.remove_instance(0, start=machine.card(0).instances[0].start)
    machine.add_instance(0, "1g.10gb")
    world.clock.now += 1000
    world.fleet.sync()
    assert {LARGE: 1} == world.allocatable()
    assert before == world.offered()


@pytest.mark.parametrize("way", ["gate", "delete", "taint"])
def test_a_new_pod_enumerates_anew(world: World, way: str) -> None:
    """Pausing by label, deleting the pod, or taint and delete all lead to a pod with another UID and the new list."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    node = world.node(machine)
    world.until_allocatable({LARGE: 1})
    (old,) = world.plugin_pods()
    name = old["metadata"]["name"]
    if way == "gate":
        world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "paused-by-test"}}})
    elif way == "taint":
        world.cluster.patch(NODE, "n1", {"spec": {"taints": [{"key": "busy", "value": "", "effect": "NoSchedule"}]}})
        world.fleet.sync()
        assert [old["metadata"]["uid"]] == [p["metadata"]["uid"] for p in world.plugin_pods()]
    if way != "gate":
        world.cluster.delete(POD, name, OPERATOR_NAMESPACE)
    if way != "delete":
        world.until("the plugin to be gone", lambda: not world.plugin_pods())
        assert ["kubelet.sock"] == [s.name for s in open_sockets(node.root / "device-plugins")]
    machine.remove_instance(0, start=machine.card(0).instances[0].start)
    machine.add_instance(0, "1g.10gb")
    world.cluster.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "true"}}, "spec": {"taints": None}})
    world.until_allocatable({SMALL: 1})
    (new,) = world.plugin_pods()
    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    assert {"app": PLUGIN_DAEMON_SET} == new["metadata"]["labels"]


def test_ready_proves_nothing(world: World) -> None:
    """With no device at all the plugin's pod is Running and Ready, and nothing is allocatable."""
    world.node(world.machine())
    world.until("the plugin to run", lambda: [p["status"]["phase"] for p in world.plugin_pods()] == ["Running"])
    conditions = {c["type"]: c["status"] for c in world.plugin_pods()[0]["status"]["conditions"]}
    assert "True" == conditions["Ready"]
    assert {} == world.allocatable()


def test_a_crashing_plugin_is_restarted_with_backoff(world: World) -> None:
    """A fatal layout is a crash loop of one pod; once the layout is fine the next restart succeeds."""
    machine = world.machine()
    world.node(machine, Strategy.SINGLE)

    def container_status() -> dict[str, object]:
        statuses = [s for p in world.plugin_pods() for s in p["status"].get("containerStatuses", ())]
        return statuses[0] if statuses else {}

    world.until("the crash", lambda: container_status().get("restartCount") == 1)
    state = container_status()["state"]
    assert isinstance(state, dict)
    assert "CrashLoopBackOff" == state["waiting"]["reason"]
    assert "device 0 has no MIG devices" in state["waiting"]["message"]
    world.clock.now += 10
    world.until("the second crash", lambda: container_status()["restartCount"] == 2)
    machine.add_instance(0, "3g.40gb")
    world.clock.now += 19
    world.fleet.sync()
    assert {} == world.allocatable()
    world.clock.now += 1
    world.until_allocatable({GPU: 1})
    assert 2 == container_status()["restartCount"]


def test_an_unknown_strategy_is_a_crash(world: World) -> None:
    """A plugin that is told nonsense ends, as the real one does when it reads its flags."""
    world.node(world.machine())
    env = [{"name": "MIG_STRATEGY", "value": "sinlge"}]
    template = {"spec": {"template": {"spec": {"containers": [{"name": "nvidia-device-plugin", "env": env}]}}}}
    world.cluster.patch(DAEMON_SET, PLUGIN_DAEMON_SET, template, OPERATOR_NAMESPACE)
    world.until("the pod", lambda: bool(world.plugin_pods()))
    world.fleet.sync()
    world.fleet.sync()
    (status,) = world.plugin_pods()[0]["status"]["containerStatuses"]
    assert "unknown MIG strategy: sinlge" == status["state"]["waiting"]["message"]


def test_an_unhealthy_device_is_capacity_only(world: World) -> None:
    """A second message of ListAndWatch takes the device out of allocatable; only a restart brings it back."""
    machine = world.machine()
    machine.add_instance(0, "1g.10gb")
    machine.add_instance(0, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 2})
    broken = min(world.offered())
    with pytest.raises(KeyError, match="MIG-other"):
        node.mark_unhealthy("MIG-other")
    node.mark_unhealthy(broken)
    world.until_allocatable({SMALL: 1})
    assert {SMALL: 2} == world.devices("capacity")
    assert broken not in world.offered()
    world.cluster.delete(POD, world.plugin_pods()[0]["metadata"]["name"], OPERATOR_NAMESPACE)
    world.until_allocatable({SMALL: 2})


def test_whole_cards_are_held_whole(world: World) -> None:
    """A pod with a card without MIG uses the card; with MIG on, its first slice; with no slice, nothing at all."""
    machine = world.machine("A100-SXM4-80GB*3")
    machine.set_mig(0, enabled=False)
    machine.add_instance(1, "3g.40gb")
    machine.add_instance(1, "1g.10gb")
    world.node(machine, Strategy.NONE)
    world.until_allocatable({GPU: 3})
    world.pod("p", container(gpu=3))
    world.until_phase("p", "Running")
    whole, first, none = ([c.gpu_instance for c in card.clients] for card in machine.read().cards)
    assert [None] == whole
    assert [machine.card(1).instances[0].id] == first
    assert [] == none


@pytest.mark.parametrize(
    ("toleration", "lasts"),
    [
        ({"key": "busy", "value": "yes"}, True),
        ({"key": "busy", "value": "no"}, False),
        ({"key": "busy", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "busy", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_no_execute_ends_what_does_not_tolerate_it(world: World, toleration: dict[str, str], lasts: bool) -> None:
    """A taint NoExecute takes the plugin's pod away unless its DaemonSet tolerates it."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine)
    template = {"spec": {"template": {"spec": {"tolerations": [toleration]}}}}
    world.cluster.patch(DAEMON_SET, PLUGIN_DAEMON_SET, template, OPERATOR_NAMESPACE)
    world.until_allocatable({LARGE: 1})
    world.cluster.patch(NODE, "n1", {"spec": {"taints": [{"key": "busy", "value": "yes", "effect": "NoExecute"}]}})
    world.fleet.sync()
    world.fleet.sync()
    assert lasts == bool(world.plugin_pods())


def test_a_template_that_does_not_tolerate_brings_no_pod(world: World) -> None:
    """As long as the template tolerates less than the node's taints, no pod comes."""
    machine = world.machine()
    machine.add_instance(0, "3g.40gb")
    world.node(machine, taints=[{"key": "migmanager.io/unready", "value": "", "effect": "NoSchedule"}])
    world.fleet.sync()
    world.fleet.sync()
    assert [] == world.plugin_pods()
    tolerations = [{"operator": "Exists"}]
    world.cluster.patch(
        DAEMON_SET,
        PLUGIN_DAEMON_SET,
        {"spec": {"template": {"spec": {"tolerations": tolerations}}}},
        OPERATOR_NAMESPACE,
    )
    world.until_allocatable({LARGE: 1})
