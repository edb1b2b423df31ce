from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.sim_node.world import World, until


@pytest.fixture
def world() -> Iterator[World]:
    """A world, of which no thread and no file may be left afterwards."""
    before = set(threading.enumerate())
    world = World()
    with world.fleet:
        yield world
    until("threads to end", lambda: not [t for t in threading.enumerate() if t not in before])
    assert not world.fleet.directory.exists()
