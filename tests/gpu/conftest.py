"""Worlds to test in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mig_manager.sim.model.machine import Machine
from tests.chaos.counting import matrix
from tests.gpu.worlds import World

__all__ = ["matrix"]


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """Make a world with the cards named; MIG is on unless told otherwise."""

    def make(*gpus: str, mig: bool = True, **options: object) -> World:
        machine = Machine.create(None, gpus, mig=mig, **options)  # type: ignore[arg-type]
        return World(machine, tmp_path / "journal.json")

    return make
