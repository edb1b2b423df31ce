"""Whatever request to the API server fails, and however: the agent does no harm and converges."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mig_manager.kube.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from tests.agent.scenarios import SCENARIOS, Scenario, Story
from tests.agent.worlds import Fault

STRIDE = 1 if os.environ.get("CHAOS") == "all" else 37
CHOSEN = ("busy", "revoked-when-paused", "replaced-when-cordoned")

ERRORS: dict[str, tuple[Callable[[str], ClusterError], bool]] = {
    "conflict": (lambda doing: ConflictError(doing, "the object has been modified"), False),
    "forbidden": (lambda doing: ForbiddenError(doing, "no"), False),
    "too-many-requests": (lambda doing: TooManyRequestsError(doing, "slow down", 1.0), False),
    "unavailable": (lambda doing: UnavailableError(doing, "connection refused"), False),
    "answer-lost": (lambda doing: UnavailableError(doing, "connection reset"), True),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name in CHOSEN], ids=lambda s: s.name)
def test_request_fails(scenario: Scenario, kind: str, tmp_path: Path) -> None:
    """Any request of a story fails once, in every way: same invariants, same end."""
    error, lost = ERRORS[kind]
    base = tmp_path / "none"
    base.mkdir()
    requests = Story(scenario, base).run().requests
    offset = 1 + sum(map(ord, kind + scenario.name)) % STRIDE
    for at in range(offset, requests + 1, STRIDE):
        directory = tmp_path / str(at)
        directory.mkdir()
        Story(scenario, directory).run(fault=Fault(at, error, lost))


def test_objects_vanish(tmp_path: Path) -> None:
    """NotFound for something that was there a moment ago ends the pass, and nothing else."""
    story = Story(SCENARIOS[0], tmp_path)
    story.run(fault=Fault(2, lambda doing: NotFoundError(doing, "gone")))
