"""The cluster of these tests, which exists inside the room only; elsewhere they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.programs import Programs
from tests.node.cluster import RealCluster, real_cluster
from tests.node.enter import INSIDE
from tests.node.real import RealNode

GPU = "A100-SXM4-80GB"
ALL = "tests/node"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a real node."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("node")


@pytest.fixture(scope="session")
def room() -> None:
    """Skip outside: these tests change network and mounts."""
    if INSIDE not in os.environ:
        pytest.skip("tests on real nodes run in namespaces of their own: make test-node")


@pytest.fixture(scope="session")
def shared(room: None, request: pytest.FixtureRequest) -> Iterator[RealCluster]:  # noqa: ARG001 - it comes first
    """The cluster of all these tests, with one node that has one card."""
    programs: Programs = request.getfixturevalue("programs")
    with real_cluster(programs) as cluster:
        cluster.add_node(GPU)
        yield cluster
        assert [] == cluster.audit.refused()
        if is_whole(request.config) and not request.session.testsfailed:
            unused = [" ".join(filter(None, right)) for right in cluster.audit.unused()]
            assert [] == unused, "granted in deploy/, and used by no scenario: take it away, or test what it is for"


def is_whole(config: pytest.Config) -> bool:
    """Whether all of these tests are run, so that every right must be used."""
    return config.args == [ALL] and not config.option.keyword and not config.option.markexpr


@pytest.fixture
def cluster(shared: RealCluster, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The cluster, cleaned up after each test, and judged: no promise was broken on the way."""
    failed, before = request.session.testsfailed, shared.now()
    yield shared
    if request.session.testsfailed > failed:
        print(shared.explain())
    shared.clean()
    shared.judge(before)


@pytest.fixture
def node(cluster: RealCluster) -> RealNode:
    """The first node."""
    return cluster.nodes[0]
