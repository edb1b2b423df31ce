"""Killed before or after any call of its ports, at the worst moment of every story, the agent converges.

A kill is real for the outside: from that point on the dead agent reaches no port, whatever cleanup Python still runs.
Of NVML's functions only those that change the cards are points: to die at one that reads is to die at the next point,
as nothing outside is different by then; ``tests/gpu/test_kills.py`` dies at every one.
By default a fixed part of the points is tried; ``make chaos`` tries every one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.scenarios import SCENARIOS, Scenario, Story, directory
from tests.chaos.counting import Matrix, fixed_part

STRIDE = 61


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_killed_anywhere(scenario: Scenario, tmp_path: Path, matrix: Matrix) -> None:
    """Nothing in use destroyed, cordon and pause ours or nobody's, and in the end everything is as wanted."""
    matrix.scenario()
    points = 0
    with matrix.attempt(f"{scenario.name}, not killed"):
        points = Story(scenario, directory(tmp_path, 0)).run().points
        assert points > 10  # a story without calls proves nothing
    for die_at in fixed_part(points, STRIDE, scenario.name):
        with matrix.attempt(f"{scenario.name}, killed at point {die_at}", kills=1):
            Story(scenario, directory(tmp_path, die_at)).run(die_at)
