"""The control plane of these tests, one per process that runs tests, and a world for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.programs import Programs
from tests.chaos.counting import matrix
from tests.e2e.plane import Plane, deployed
from tests.e2e.world import World

__all__ = ["matrix"]


@pytest.fixture(scope="session")
def plane(programs: Programs) -> Iterator[Plane]:
    """A control plane with the product deployed."""
    with deployed(programs) as found:
        yield found


@pytest.fixture
def world(plane: Plane, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A pool with nothing in it yet; when the test has passed, the observer judges."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    with World(plane, name, tmp_path) as found:
        yield found
