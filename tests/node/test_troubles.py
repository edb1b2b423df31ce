"""What befalls a real node in the middle of a change: programs are killed, the node reboots, the agent is upgraded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mig_manager.agent.names import CORDONED, PAUSED
from tests.e2e.hosts import CREATE
from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import RealCluster
from tests.node.real import RealNode
from tests.node.test_change import MORE_PROFILES

AGENT = ("mig-manager", "agent")
PLUGIN = ("tests.node.pods.plugin",)
SLOWLY_MS = 3000

Moment = Callable[[RealCluster, RealNode], object]


def noted(annotation: str) -> Moment:
    """An annotation of ours is on the Node."""
    return lambda cluster, node: annotation in cluster.node(node)["metadata"].get("annotations", {})


def cut_in_part(_: RealCluster, node: RealNode) -> bool:
    """Something of the old layout is gone, and not all of the new one is there."""
    return node.counts() not in (WIDE, NARROW)


def cut(_: RealCluster, node: RealNode) -> bool:
    """The cards have the new layout."""
    return node.counts() == NARROW


MOMENTS: dict[str, Moment] = {
    "cordoned": noted(CORDONED),
    "clients-paused": noted(PAUSED),
    "cut-in-part": cut_in_part,
    "cut": cut,
}


def begin(cluster: RealCluster, node: RealNode) -> None:
    """Let a change from the wide to the narrow layout begin in which every step can be seen."""
    cluster.config("wide", profiles=MORE_PROFILES)
    cluster.finished(node, WIDE)
    node.machine.inject(CREATE, latency_ms=SLOWLY_MS)
    cluster.edit(profile="narrow")


@pytest.mark.parametrize("moment", MOMENTS)
def test_agent_killed(cluster: RealCluster, node: RealNode, moment: str) -> None:
    """The kubelet starts it again, and it brings to its end what it finds."""
    begin(cluster, node)
    cluster.until(moment, lambda: MOMENTS[moment](cluster, node))
    node.kill(*AGENT)
    cluster.finished(node, NARROW)


def test_kubelet_restarted(cluster: RealCluster, node: RealNode) -> None:
    """A kubelet that forgets all devices in the middle of a change only takes time; pods go on with their slices."""
    begin(cluster, node)
    cluster.pod("p", "mig-3g.40gb")
    cluster.until("a slice to be cut", lambda: cut_in_part(cluster, node))
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
    cluster.config("narrow", profiles=MORE_PROFILES)
    cluster.finished(node, NARROW)
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
    cluster.until("the change to begin", lambda: noted(CORDONED)(cluster, node))
    cluster.kubectl("--namespace", "mig-manager", "rollout", "restart", "daemonset/agent")
    cluster.finished(node, NARROW)
    cluster.kubectl("--namespace", "mig-manager", "rollout", "status", "daemonset/agent", "--timeout=120s")
    cluster.finished(node, NARROW)
