"""Every NVML function with every error that is documented for it, in the middle of an agent's work."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from tests.agent.clock import START
from tests.agent.scenarios import TOLD, Scenario, Story, Twist, directory
from tests.agent.worlds import World
from tests.chaos.counting import Matrix, fixed_part
from tests.gpu.documented import CASES

STRIDE = 67
LASTS = timedelta(minutes=2)
"""How long an error lasts that strikes every call."""

CALLS: tuple[list[int] | Literal["every"], ...] = ([1], [2], "every")
STORIES = ("busy", "mode-change-on-hopper", "mode-change-on-ampere")


def over(w: World) -> bool:
    """The driver has recovered."""
    return w.clock.now() - START > LASTS


def heal(w: World) -> None:
    """No call fails any more."""
    w.machine.clear_faults()


@pytest.mark.parametrize("calls", CALLS, ids=str)
@pytest.mark.parametrize("scenario", [s for s in TOLD if s.name in STORIES], ids=lambda s: s.name)
def test_driver_fails(scenario: Scenario, calls: list[int] | Literal["every"], tmp_path: Path, matrix: Matrix) -> None:
    """Once, at the second call, or at every call for a while: nothing is hurt, and the layout is there in the end."""
    matrix.scenario()
    story = scenario if calls != "every" else replace(scenario, twists=(*scenario.twists, Twist(over, heal)))
    tried = [CASES[n - 1] for n in fixed_part(len(CASES), STRIDE, f"{scenario.name}{calls}")]
    for number, (function, code) in enumerate(tried):
        with matrix.attempt(f"{scenario.name}, {function} fails with {code.name} at {calls}", faults=1):
            begun = Story(story, directory(tmp_path, number))
            begun.w.machine.inject(function, code=code, calls=calls)
            begun.run()
