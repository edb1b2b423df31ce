"""Pools, nodes and MIGNodes for tests of the controller, as records and as objects of the API."""

# ruff: noqa: ANN401 - fields of records are passed on
from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mig_manager.api.migconfig import Disruption, MIGConfig
from mig_manager.api.mignode import Desired
from mig_manager.api.mignode_status import GrantStatus
from mig_manager.api.selector import LabelSelector
from mig_manager.controller.desire import desired
from mig_manager.controller.grant import Decision, Write, decide
from mig_manager.controller.records import GrantRecord, MIGNodeRecord, PlanRecord
from mig_manager.controller.views import View

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
EARLIER = NOON - timedelta(minutes=5)
ME = "me_1"
FORMER = "former_1"
A = "all-1g"
B = "all-balanced"


def config(**changes: Any) -> MIGConfig:
    """The pool ``pool``: nodes with ``pool: a``, profile A, one node at a time."""
    values: dict[str, Any] = {"name": "pool", "node_selector": LabelSelector((("pool", "a"),)), "profile": A}
    return MIGConfig(**{**values, **changes})


def budget(number: int | str, **changes: Any) -> Disruption:
    return Disruption(max_unavailable=number, **changes)


def wish(profile: str = A, pool: MIGConfig | None = None) -> Desired:
    return desired(pool or config(), profile)


def grant(number: int = 1, profile: str = A, **changes: Any) -> GrantRecord:
    """A grant of ours without a slot."""
    terms = Disruption()
    values: dict[str, Any] = {
        "id": number,
        "by": ME,
        "config": "pool",
        "slot": False,
        "revoked": False,
        "hash": wish(profile).hash,
        "max_impact": terms.max_impact,
        "drain": terms.drain,
        "rollback": "OnFailure",
    }
    return GrantRecord(**{**values, **changes})


def plan(profile: str = A, impact: Any = "EvictPods", *, applied: bool = False, reason: str = "") -> PlanRecord:
    return PlanRecord(wish(profile).hash, None if reason else impact, applied, reason, "why" if reason else "")


def obstructed(impact: Any = "EvictPods") -> PlanRecord:
    """A plan in the way of which stands a pod that no drain can move."""
    return PlanRecord(
        wish(A).hash, impact, applied=False, reason="DaemonSetPod", message="ns/p would come back at once"
    )


DONE = plan(impact="None", applied=True)
"""What the agent plans when profile A is on the cards."""


def answer(number: int = 1, state: Any = "Released", result: Any = "Applied", **changes: Any) -> GrantStatus:
    return GrantStatus(number, state, result if state == "Released" else None, **changes)


def node(name: str = "n1", profile: str = A, **changes: Any) -> MIGNodeRecord:
    """A MIGNode whose wish for that profile is written and planned: pods would have to be evicted."""
    target = wish(profile)
    values: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": 5,
        "observed_generation": 5,
        "node_uid": f"node-{name}",
        "config": "pool",
        "profile": profile,
        "hash": target.hash,
        "plan": plan(profile),
    }
    return MIGNodeRecord(**{**values, **changes})


NOT_READY = "the Node is not Ready"


def view(record: MIGNodeRecord | None = None, profile: str = A, **changes: Any) -> View:
    return View(record or node(), wish(profile), **changes)


def decided(*views: View, pool: MIGConfig | None = None, now: datetime = NOON, others: int = 0) -> Decision:
    """The decision about these nodes, with the slots counted that they hold, and those of ``others`` elsewhere."""
    slots = sum(v.record.holds_slot for v in views) + others
    return decide(views, pool or config(), ME, now, slots)


def writes(*views: View, **options: Any) -> tuple[Write, ...]:
    return decided(*views, **options).writes


def short(write: Write) -> tuple[Any, ...]:
    """A write in a few words: ``("n1", "wish", "revoke")``, with a slot ``("n1", "slot", 2)``, without ``"free"``."""
    what: list[Any] = [write.name]
    if write.desired is not None:
        what.append("wish")
    if write.revoke:
        what.append("revoke")
    if write.grant is not None:
        what += ["slot" if write.grant.slot else "free", write.grant.id]
    return tuple(what)


def shorts(*views: View, **options: Any) -> list[tuple[Any, ...]]:
    return [short(write) for write in writes(*views, **options)]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds

    def now(self) -> datetime:
        """The time of day."""
        return NOON + timedelta(seconds=self.seconds - 1000.0)


def node_object(name: str, labels: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """A Node that is Ready; the keys of ``changes`` are spec fields."""
    return {"metadata": {"name": name, "labels": dict(labels or {"pool": "a"})}, "spec": dict(changes)}


def ready_status(status: str = "True") -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    times = {"lastTransitionTime": stamp, "lastHeartbeatTime": stamp}
    return {"conditions": [{"type": "Ready", "status": status, "reason": "Kubelet", "message": "", **times}]}


def config_object(name: str = "pool", **spec: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"nodeSelector": {"matchLabels": {"pool": "a"}}, "profile": A}
    return {
        "apiVersion": "migmanager.io/v1alpha1",
        "kind": "MIGConfig",
        "metadata": {"name": name},
        "spec": {**values, **spec},
    }
