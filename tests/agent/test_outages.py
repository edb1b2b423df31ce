"""The API server is gone for minutes, in every way and at any moment: nothing is hurt, few requests knock, it goes on.

Passes follow each other as the agent's own pacing says, in simulated time; what was asked is counted.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mig_manager.agent.pacing import Pacing
from tests.agent.errors import FAILURES
from tests.agent.process import Outage
from tests.agent.scenarios import TOLD, Scenario, Story, directory
from tests.chaos.counting import ALL, Matrix, fixed_part, must

STRIDE = 23
STORIES = ("busy", "revoked-when-paused", "creation-fails", "persons-cordon") if ALL else ("busy",)
MINUTE_S = 60.0
GONE_S = 300.0
KNOCKS_PER_MINUTE = 20
"""While nothing works; the first minute has most of them, as the distance doubles."""

PATIENT_PER_MINUTE = 80
"""Where the server itself says after one second: once a second, and jitter."""


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("scenario", [s for s in TOLD if s.name in STORIES], ids=lambda s: s.name)
def test_server_gone_for_minutes(scenario: Scenario, kind: str, tmp_path: Path, matrix: Matrix) -> None:
    """From any request on everything fails; afterwards the story ends as it would have."""
    matrix.scenario()
    requests = Story(scenario, directory(tmp_path, 0)).run().requests
    for at in fixed_part(requests, STRIDE, kind + scenario.name):
        with matrix.attempt(f"{scenario.name}, from request {at} on {kind}", faults=1):
            story = Story(scenario, directory(tmp_path, at))
            outage = Outage(at, FAILURES[kind].error, clock=story.w.clock, seconds=GONE_S)
            story.run(fault=outage, pacing=Pacing(MINUTE_S * 10, random.Random(at)))  # noqa: S311 - jitter
            limit = PATIENT_PER_MINUTE if kind.startswith("429") else KNOCKS_PER_MINUTE
            asked = outage.most(MINUTE_S)
            must(asked <= limit, f"{asked} requests in a minute of outage")


def test_outage_is_felt(tmp_path: Path) -> None:
    """The measure measures: an agent that knocks every second would be seen."""
    story = Story(TOLD[0], tmp_path)
    outage = Outage(3, FAILURES["timeout"].error, clock=story.w.clock, seconds=MINUTE_S)
    story.run(fault=outage)
    assert outage.most(MINUTE_S) == MINUTE_S / 3
