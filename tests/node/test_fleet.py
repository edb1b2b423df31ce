"""Several real nodes under one MIGConfig."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import RealCluster
from tests.node.conftest import GPU
from tests.node.real import RealNode
from tests.node.test_change import MORE_PROFILES


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
