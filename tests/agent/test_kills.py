"""Killed before or after any call of its ports, at the worst moment of every story, the agent converges.

A kill is real for the outside: from that point on the dead agent reaches no port, whatever cleanup Python still runs.
By default a fixed part of the points is tried; CHAOS=all tries every one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.scenarios import SCENARIOS, Scenario, Story

STRIDE = 1 if os.environ.get("CHAOS") == "all" else 61


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_killed_anywhere(scenario: Scenario, tmp_path: Path) -> None:
    """Nothing in use destroyed, cordon and pause ours or nobody's, and in the end everything is as wanted."""
    points = Story(scenario, _directory(tmp_path, 0)).run().points
    assert points > 20  # a story without calls proves nothing
    offset = 1 + sum(map(ord, scenario.name)) % STRIDE
    for die_at in range(offset, points + 1, STRIDE):
        try:
            Story(scenario, _directory(tmp_path, die_at)).run(die_at)
        except AssertionError as error:
            raise AssertionError(f"{scenario.name}, killed at point {die_at}: {error}") from error


def _directory(base: Path, number: int) -> Path:
    directory = base / str(number)
    directory.mkdir()
    return directory
