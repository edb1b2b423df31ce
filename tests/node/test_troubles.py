"""What befalls a real node in the middle of a change: programs are killed, the node reboots, the agent is upgraded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mig_manager.agent.names import CORDONED
from mig_manager.agent.reconciler import STEPS
from tests.e2e.hosts import CREATE
from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import RealCluster
from tests.node.moments import AGENT, CHANGE, OTHERS, PLUGIN, Mark, Scene, cuts
from tests.node.real import RealNode
from tests.node.stories import MORE_PROFILES, cut, deployed

SLOWLY_MS = 1000


def begin(cluster: RealCluster, node: RealNode) -> None:
    """Let a change from the wide to the narrow layout begin in which every step can be seen."""
    cut(cluster, node)
    node.machine.inject(CREATE, latency_ms=SLOWLY_MS)
    cluster.edit(profile="narrow")


def kill_agent(scene: Scene, step: str, mark: Mark) -> None:
    """Kill the agent when it is seen to have come to a step; when it is just being started, as soon as it is there."""
    scene.cluster.until(f"the agent at {step}", lambda: mark(scene) and scene.node.processes(*AGENT))
    scene.node.kill(*AGENT)


def test_every_step_has_its_mark() -> None:
    """No step is forgotten."""
    assert {step.__name__ for step in STEPS} == CHANGE.keys() | OTHERS.keys()


def test_agent_killed_at_every_step(cluster: RealCluster, node: RealNode) -> None:
    """At each step of one change it dies once; the kubelet starts it again, and it brings to its end what it finds.

    One pod of the two has to leave, under a budget that lets one go, and the other never notices.
    """
    cut(cluster, node)
    deployed(cluster, node, "web", 2, "mig-3g.40gb")
    cluster.budget("web", min_available=1)
    before, scene = cluster.held(node), Scene(cluster, node, cluster.now())
    node.machine.inject(CREATE, latency_ms=SLOWLY_MS)

    cluster.edit(profile="narrow")
    for step, mark in CHANGE.items():
        kill_agent(scene, step, mark)
    cluster.finished(node, NARROW)
    cluster.until("one to run", lambda: cluster.using(node, "web") == 1)
    assert cluster.held(node).items() <= before.items()


def test_agent_killed_while_it_settles(cluster: RealCluster, node: RealNode) -> None:
    """A grant for which there is nothing to do is acknowledged by the next agent."""
    cut(cluster, node)
    cluster.clean()
    scene = Scene(cluster, node, cluster.now())
    cluster.config("wide", profiles=MORE_PROFILES)
    kill_agent(scene, "settle", OTHERS["settle"])
    cluster.finished(node, WIDE)


def test_agent_killed_while_it_stands_down(cluster: RealCluster, node: RealNode) -> None:
    """A node whose work was called off while its drain was blocked is let go by the next agent; nobody had to leave."""
    cut(cluster, node)
    deployed(cluster, node, "both", 2, "mig-3g.40gb")
    cluster.budget("both", min_available=2)
    before, scene = cluster.held(node), Scene(cluster, node, cluster.now())
    cluster.edit(profile="narrow")
    cluster.until("the drain to be blocked", lambda: cluster.reason(node) == "EvictionBlocked")
    cluster.edit(paused=True)
    kill_agent(scene, "stand_down", OTHERS["stand_down"])
    cluster.until("the node to be let go", lambda: not cluster.node(node)["spec"].get("unschedulable"))
    assert not scene.noted(CORDONED)
    cluster.edit(profile="wide", paused=False)
    cluster.finished(node, WIDE)
    assert before == cluster.held(node)


def test_kubelet_restarted(cluster: RealCluster, node: RealNode) -> None:
    """A kubelet that forgets all devices in the middle of a change only takes time; pods go on with their slices."""
    begin(cluster, node)
    cluster.pod("p", "mig-3g.40gb")
    cluster.until("a slice to be cut", lambda: cuts(Scene(cluster, node, 0)))
    node.kill("kubelet")
    cluster.finished(node, NARROW)
    cluster.running("p")
    before = node.kubelet_socket()
    node.kill("kubelet")
    cluster.until("a new kubelet", lambda: node.kubelet_socket() not in (None, before))
    cluster.finished(node, NARROW)
    assert "Running" == cluster.phase("p")
    cluster.until("the pod to be listed", lambda: list(cluster.held(node)) == ["p"])


def test_plugin_killed(cluster: RealCluster, node: RealNode) -> None:
    """A device plugin that crashes while its devices are waited for comes again, and so do they."""
    begin(cluster, node)
    cluster.until("the new plugin", lambda: node.counts() == NARROW and node.processes(*PLUGIN))
    node.kill(*PLUGIN)
    cluster.finished(node, NARROW)


def test_reboot(cluster: RealCluster, node: RealNode) -> None:
    """All slices are lost with the power; under the grant that stands they are made again before pods come."""
    cut(cluster, node, "narrow")
    boot_id = cluster.node(node)["status"]["nodeInfo"]["bootID"]
    node.reboot()
    cluster.until("the reboot", lambda: cluster.node(node)["status"]["nodeInfo"]["bootID"] != boot_id)
    cluster.finished(node, NARROW)
    cluster.pod("p", "mig-3g.40gb")
    cluster.running("p")


@pytest.fixture
def passed_through(cluster: RealCluster, node: RealNode) -> Iterator[RealNode]:
    """The node with a card that no reset brings into another MIG mode, as in a virtual machine."""
    cluster.config("off", profiles=MORE_PROFILES, disruption={"maxImpact": "RebootNode"})
    cluster.until("a whole card", lambda: cluster.offered(node) == {"gpu": 1} and cluster.reason(node) == "Ready")
    with node.machine.change() as machine:
        machine.cards[0].passthrough = True
    yield node
    with node.machine.change() as machine:
        machine.cards[0].passthrough = False


def test_reboot_by_the_agent(cluster: RealCluster, passed_through: RealNode) -> None:
    """Where nothing else helps and it is allowed, the shipped command reboots the node out of the agent's container."""
    node = passed_through
    cluster.edit(profile="narrow")
    cluster.until("the node to go down", lambda: node.is_off)
    node.reboot()
    cluster.finished(node, NARROW)


def test_agent_upgraded(cluster: RealCluster, node: RealNode) -> None:
    """A new agent takes over in the middle of the old one's change."""
    begin(cluster, node)
    cluster.until("the change to begin", lambda: Scene(cluster, node, 0).noted(CORDONED))
    cluster.kubectl("--namespace", "mig-manager", "rollout", "restart", "daemonset/agent")
    cluster.finished(node, NARROW)
    cluster.kubectl("--namespace", "mig-manager", "rollout", "status", "daemonset/agent", "--timeout=120s")
    cluster.finished(node, NARROW)
