"""Whatever request to the API server fails, and however: the agent does no harm and converges."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager.kube.errors import NotFoundError
from tests.agent.errors import FAILURES
from tests.agent.process import Fault
from tests.agent.scenarios import TOLD, Scenario, Story, directory
from tests.chaos.counting import ALL, Matrix, fixed_part

STRIDE = 37
FEW = ("busy", "revoked-when-paused", "replaced-when-cordoned")
TOLD_APART = ("409-conflict", "429-slow-down", "500-internal", "connection-reset")
"""What the agent tells apart; the others are variants of these to it, and are tried in fewer stories."""

CASES = [(s, kind) for s in TOLD for kind in FAILURES if s.name in FEW or (ALL and kind in TOLD_APART)]


@pytest.mark.parametrize(("scenario", "kind"), CASES, ids=lambda value: getattr(value, "name", value))
def test_request_fails(scenario: Scenario, kind: str, tmp_path: Path, matrix: Matrix) -> None:
    """Any request of a story fails once, in every way: same invariants, same end."""
    matrix.scenario()
    failure = FAILURES[kind]
    requests = Story(scenario, directory(tmp_path, 0)).run().requests
    for at in fixed_part(requests, STRIDE, kind + scenario.name):
        with matrix.attempt(f"{scenario.name}, request {at} fails with {kind}", faults=1):
            Story(scenario, directory(tmp_path, at)).run(fault=Fault(at, failure.error, failure.lost))


def test_objects_vanish(tmp_path: Path) -> None:
    """NotFound for something that was there a moment ago ends the pass, and nothing else."""
    story = Story(TOLD[0], tmp_path)
    story.run(fault=Fault(2, lambda doing: NotFoundError(doing, "gone")))
