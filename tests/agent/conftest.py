"""Worlds to test the agent in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.worlds import World


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """Make a world with the cards named; MIG is on unless told otherwise."""

    def make(*gpus: str, mig: bool = True, strategy: Strategy = Strategy.MIXED, **slices: object) -> World:
        machine = Machine.create(None, gpus, mig=mig)
        for name, start in slices.get("cut", ()):  # type: ignore[attr-defined]
            machine.add_instance(0, name, start=start)
        return World(machine, tmp_path / "journal.json", strategy=strategy)

    return make
