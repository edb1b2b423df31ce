"""Changes of layout on a real node, from a person's wish to what pods can have."""

from __future__ import annotations

from mig_manager.kube.kinds import POD_DISRUPTION_BUDGET
from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import WORK, RealCluster
from tests.node.real import RealNode
from tests.node.stories import SLICES, cut, deployed


def test_free_slices(cluster: RealCluster, node: RealNode) -> None:
    """The agent cuts, the kubelet offers exactly the new slices, the Node is labelled and let back in; pods come."""
    cut(cluster, node)
    cluster.edit(profile="narrow")
    cluster.finished(node, NARROW)
    cluster.pod("p", "mig-1g.10gb")
    cluster.running("p")
    assert ["p"] == list(cluster.held(node))


def test_busy_slices(cluster: RealCluster, node: RealNode) -> None:
    """Only pods whose slices go are replaced, as their budget allows, and the others never notice."""
    cut(cluster, node, "seven")
    deployed(cluster, node, "web", 4, "mig-1g.10gb")
    cluster.budget("web", min_available=1)
    before = cluster.held(node)

    cluster.edit(profile="four")
    cluster.finished(node, SLICES["four"])
    cluster.until("all of them to run again", lambda: cluster.using(node, "web") == 4)
    after = cluster.held(node)
    # Which of the seven slices they got is for the kubelet to say; a device that is still there was kept.
    kept = {name: devices for name, devices in before.items() if node.has(*devices)}
    assert kept == {name: after[name] for name in kept}
    assert not (before.keys() - kept.keys()) & after.keys()


def test_blocked_drain(cluster: RealCluster, node: RealNode) -> None:
    """While a budget forbids it nobody is evicted; when it is gone, one pod is, and the other keeps its slice."""
    cut(cluster, node)
    deployed(cluster, node, "both", 2, "mig-3g.40gb")
    cluster.budget("both", min_available=2)
    before = cluster.held(node)

    cluster.edit(profile="narrow")
    cluster.until("the drain to be blocked", lambda: cluster.reason(node) == "EvictionBlocked")
    assert before == cluster.held(node)
    assert WIDE == node.counts()
    cluster.person.delete(POD_DISRUPTION_BUDGET, "both", WORK)
    cluster.finished(node, NARROW)
    cluster.until("one to run", lambda: cluster.using(node, "both") == 1)
    assert cluster.held(node).items() <= before.items()


def test_mode(cluster: RealCluster, node: RealNode) -> None:
    """MIG is switched off and on again; in between the whole card is what pods can have."""
    cut(cluster, node)
    cluster.edit(profile="off")
    cluster.until("a whole card", lambda: cluster.offered(node) == {"gpu": 1} and cluster.reason(node) == "Ready")
    deployed(cluster, node, "whole", 1, "gpu")
    cluster.edit(profile="wide")
    cluster.finished(node, WIDE)
    assert 0 == cluster.using(node, "whole")
