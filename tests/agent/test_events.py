"""Events: one per transition that somebody should hear of."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mig_manager.agent.events import transitions
from mig_manager.api.conditions import Condition
from mig_manager.api.mignode_status import GrantStatus, MIGNodeStatus
from mig_manager.kube.events import EventType

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def saying(reason: str, grant: GrantStatus | None = None) -> MIGNodeStatus:
    return MIGNodeStatus(grant=grant, conditions=(Condition("Ready", "False", reason, "words", NOON),))


@pytest.mark.parametrize("reason", ["WaitingForTurn", "Draining", "Ready", "NotWanted"])
def test_what_comes_and_goes_is_no_event(reason: str) -> None:
    """Waiting for its turn is what a node does most of its life; nobody is warned of it."""
    assert [] == list(transitions(MIGNodeStatus(), saying(reason)))


def test_what_is_in_the_way_is_told_once() -> None:
    """A reason to act is a warning when it appears, and nothing while it stays."""
    told = list(transitions(MIGNodeStatus(), saying("InUse")))
    assert [(EventType.WARNING, "InUse", "words")] == told
    assert [] == list(transitions(saying("InUse"), saying("InUse")))


def test_a_grant_is_told_when_it_begins_and_ends() -> None:
    """Started, done, failed: one event each; a grant with nothing to do is no news."""
    held = saying("Draining", GrantStatus(3, "Held"))
    done = saying("Ready", GrantStatus(3, "Released", result="Applied"))
    failed = saying("ApplyFailed", GrantStatus(3, "Released", result="RolledBack", reason="ApplyFailed", message="why"))
    assert ["RepartitionStarted"] == [reason for _, reason, _ in transitions(MIGNodeStatus(), held)]
    assert ["Repartitioned"] == [reason for _, reason, _ in transitions(held, done)]
    assert [(EventType.WARNING, "ApplyFailed", "RolledBack: why")] == list(transitions(held, failed))
    assert [] == list(transitions(MIGNodeStatus(), done))
