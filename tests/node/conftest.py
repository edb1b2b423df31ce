"""The cluster of these tests, which exists inside the room only; elsewhere they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.programs import Programs
from tests.node.audit import Right
from tests.node.cluster import RealCluster, real_cluster
from tests.node.enter import INSIDE
from tests.node.real import RealNode

GPU = "A100-SXM4-80GB"
UNUSED = pytest.StashKey[list[Right]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell which rights lay idle: what no test ever needs should not be granted."""
    for right in config.stash.get(UNUSED, []):
        terminalreporter.write_line(f"granted and not used by these tests: {' '.join(filter(None, right))}")


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
        request.config.stash[UNUSED] = cluster.audit.unused()
        assert [] == cluster.audit.refused()


@pytest.fixture
def cluster(shared: RealCluster, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The cluster, cleaned up after each test."""
    failed = request.session.testsfailed
    yield shared
    if request.session.testsfailed > failed:
        print(shared.explain())
    shared.clean()


@pytest.fixture
def node(cluster: RealCluster) -> RealNode:
    """The first node."""
    return cluster.nodes[0]
