"""Several real nodes under one MIGConfig."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from mig_manager.agent.names import MANAGER, STARTUP_TAINT
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.kinds import EVENT, MIG_NODE, NODE, POD
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE
from tests.deploy.events import event_about
from tests.e2e.hosts import offered, ours
from tests.e2e.layouts import NARROW, WIDE
from tests.e2e.observer import judge_budget
from tests.e2e.recorder import Event
from tests.node.cluster import RealCluster
from tests.node.conftest import GPU
from tests.node.moments import AGENT
from tests.node.real import RealNode
from tests.node.stories import MORE_PROFILES


@pytest.fixture(scope="module")
def others(shared: RealCluster) -> Iterator[list[RealNode]]:
    """Two more nodes, for these tests."""
    nodes = [shared.new_node(GPU) for _ in range(2)]
    for node in nodes:
        node.start()
    for node in nodes:
        shared.until(f"{node.name} to be Ready", partial(shared.is_ready, node))
    yield nodes
    for node in nodes:
        shared.remove_node(node)


def test_one_after_the_other(cluster: RealCluster, node: RealNode, others: list[RealNode]) -> None:
    """Of three never more than one is out, and pods that have to leave one node find their slices on the others."""
    nodes = [node, *others]
    cluster.config("wide", profiles=MORE_PROFILES)
    for one in nodes:
        cluster.finished(one, WIDE)
    cluster.deployment("web", 3, "mig-3g.40gb")
    cluster.budget("web", min_available=2)

    def running() -> bool:
        return sum(cluster.using(one, "web") for one in nodes) == 3

    cluster.until("all of them to run", running)
    before = cluster.now()
    cluster.edit(profile="narrow")
    for one in nodes:
        cluster.finished(one, NARROW)
    cluster.until("all of them to run again", running)
    assert 1 == cluster.most_out(since=before)
    judge_budget(cluster.history(before), {"app": "web"}, least=2)


@pytest.fixture
def newcomer(cluster: RealCluster) -> Iterator[RealNode]:
    """A node that comes into a pool that is there, with slices of another layout, and the startup taint."""
    cluster.config("wide", profiles=MORE_PROFILES)
    node = cluster.new_node(GPU, taints=[f"{STARTUP_TAINT}=:NoSchedule"])
    for _ in range(2):
        node.machine.add_instance(0, "1g.10gb")
    node.start()
    yield node
    cluster.clean()
    cluster.remove_node(node)


def is_open(event: Event, node: RealNode) -> bool:
    """Whether pods may come to the Node by this version of it."""
    if event.kind is not NODE or event.name != node.name or event.deleted:
        return False
    return not event.body["spec"].get("unschedulable") and not any(
        taint["key"] == STARTUP_TAINT for taint in event.body["spec"].get("taints", ())
    )


def test_startup_taint(cluster: RealCluster, newcomer: RealNode) -> None:
    """No pod comes to a new node before its layout is offered, not even one that the slices it had would do for."""
    cluster.until("the Node", lambda: cluster.node(newcomer))
    cluster.pod("early", "mig-1g.10gb", node=newcomer)
    cluster.pod("right", "mig-3g.40gb", node=newcomer)
    cluster.finished(newcomer, WIDE)
    cluster.running("right")
    assert "Pending" == cluster.phase("early")
    first = next(event for event in cluster.history(0) if is_open(event, newcomer))
    assert {"mig-3g.40gb": 2} == offered(first.body)
    assert "ready" == ours(first.body)["state"]


def test_stolen_token(cluster: RealCluster, node: RealNode, others: list[RealNode]) -> None:
    """With the token out of an agent's container nothing can be written about another node, and its pods stay."""
    second = others[0]
    cluster.config("wide", profiles=MORE_PROFILES)
    for one in (node, second):
        cluster.finished(one, WIDE)
    (plugin,) = cluster.plugin_pods(second)
    token = node.read_in_container("var/run/secrets/kubernetes.io/serviceaccount/token", *AGENT)
    thief = KubernetesCluster.from_kubeconfig(MANAGER, cluster.access.kubeconfig_with_token("stolen", token))

    thief.patch(NODE, node.name, {"metadata": {"annotations": {"by": "the agent, as far as anybody can tell"}}})
    with pytest.raises(ClusterError, match="only write its own node"):
        thief.patch(NODE, second.name, {"spec": {"unschedulable": True}})
    with pytest.raises(ClusterError, match="only write its own node"):
        thief.patch(MIG_NODE, second.name, {"status": {"observedGeneration": 1}}, subresource="status")
    with pytest.raises(ClusterError, match="only report in its own name, about its own node"):
        thief.create(EVENT, event_about(second.name), "default")
    with pytest.raises(ClusterError, match="only delete pods of its own node"):
        thief.delete(POD, plugin["metadata"]["name"], OPERATOR_NAMESPACE)
    thief.close()
    cluster.audit.forgive()
