"""Worlds to test the agent in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mig_manager.sim.model.machine import Machine
from tests.agent.worlds import World
from tests.chaos.counting import matrix

__all__ = ["matrix"]


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails in these tests, and thousands of journal writes need not wait for a disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """Make a world with the cards named; MIG is on unless told otherwise."""

    def make(*gpus: str, mig: bool = True, cut: Sequence[tuple[str, int]] = (), **options: Any) -> World:  # noqa: ANN401 - World's
        machine = Machine.create(None, gpus, mig=mig)
        for name, start in cut:
            machine.add_instance(0, name, start=start)
        return World(machine, tmp_path / "journal.json", **options)

    return make
