"""What happened before a test counts as how things were, and not as something that happened."""

from __future__ import annotations

from typing import Any

import pytest

from mig_manager.agent.names import CORDONED, MANAGER
from mig_manager.kube.kinds import MIG_NODE, NODE, Kind
from tests.e2e.recorder import Event
from tests.node.judging import beginning_at, judge

NODES = ("a", "b")


def event(version: int, kind: Kind, name: str, *, deleted: bool = False, **body: Any) -> Event:  # noqa: ANN401 - JSON
    """Something that happened to an object."""
    metadata = {"name": name, "uid": f"{kind.name}-{name}", **body.pop("metadata", {})}
    return Event(version, kind, deleted, {"metadata": metadata, **body}, at=0.0)


def ready(version: int, name: str) -> Event:
    """A Node that nobody has cordoned."""
    return event(version, NODE, name, status={"conditions": [{"type": "Ready", "status": "True"}]})


def out(version: int, name: str) -> Event:
    """A Node that our agent has taken out."""
    fields = {"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    return event(
        version,
        NODE,
        name,
        metadata={"annotations": {CORDONED: "1"}, "managedFields": [fields]},
        spec={"unschedulable": True},
        status={"conditions": [{"type": "Ready", "status": "True"}]},
    )


def held(version: int, name: str) -> Event:
    """A MIGNode whose grant the agent has taken up."""
    return event(version, MIG_NODE, name, status={"grant": {"id": 1, "state": "Held"}})


def test_only_the_last_before_counts() -> None:
    """Of what was before, the last version of what was still there."""
    history = [ready(1, "a"), ready(2, "b"), out(3, "a"), event(4, NODE, "b", deleted=True), ready(5, "a")]
    assert [3, 5] == [e.version for e in beginning_at(4, history)]


def test_one_at_a_time() -> None:
    """One after the other is fine."""
    grants = [held(1, "a"), held(2, "b")]
    judge([*grants, ready(3, "a"), ready(4, "b"), out(5, "a"), ready(6, "a"), out(7, "b"), ready(8, "b")], NODES)


def test_two_at_a_time() -> None:
    """Two are one too many."""
    grants = [held(1, "a"), held(2, "b")]
    with pytest.raises(AssertionError, match="are taken out, and 1 may be"):
        judge([*grants, ready(3, "a"), ready(4, "b"), out(5, "a"), out(6, "b")], NODES)


def test_something_of_ours_is_left() -> None:
    """A node that is not let in again is noticed."""
    with pytest.raises(AssertionError, match="something of ours is left"):
        judge([held(1, "a"), ready(2, "a"), out(3, "a")], NODES)
