"""Several real nodes under one MIGConfig."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mig_manager.agent.names import MANAGER
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.kinds import EVENT, MIG_NODE, NODE, POD
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE
from tests.deploy.test_access import event_about
from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import RealCluster
from tests.node.conftest import GPU
from tests.node.real import RealNode
from tests.node.test_change import MORE_PROFILES
from tests.node.test_troubles import AGENT


@pytest.fixture
def second(cluster: RealCluster) -> Iterator[RealNode]:
    """Another node, for one test."""
    node = cluster.add_node(GPU)
    yield node
    cluster.clean()
    cluster.remove_node(node)


def test_one_after_the_other(cluster: RealCluster, node: RealNode, second: RealNode) -> None:
    """Never more than one is out, and a pod that has to leave one node finds its slice on the other."""
    cluster.config("wide", profiles=MORE_PROFILES)
    for one in (node, second):
        cluster.finished(one, WIDE)
    cluster.deployment("web", 2, "mig-3g.40gb")
    cluster.until("both to run", lambda: cluster.using(node, "web") + cluster.using(second, "web") == 2)
    cluster.budget("web", min_available=1)

    before = cluster.now()
    cluster.edit(profile="narrow")
    for one in (node, second):
        cluster.finished(one, NARROW)
    cluster.until("both to run again", lambda: cluster.using(node, "web") + cluster.using(second, "web") == 2)
    assert 1 == cluster.most_out(since=before)


def test_stolen_token(cluster: RealCluster, node: RealNode, second: RealNode) -> None:
    """With the token out of an agent's container nothing can be written about another node, and its pods stay."""
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
    with pytest.raises(ClusterError, match="only report about its own node"):
        thief.create(EVENT, event_about(second.name), "default")
    with pytest.raises(ClusterError, match="only delete pods of its own node"):
        thief.delete(POD, plugin["metadata"]["name"], OPERATOR_NAMESPACE)
    thief.close()
    cluster.audit.forgive()
