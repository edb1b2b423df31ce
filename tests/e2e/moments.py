"""Moments at which a program is killed: what it asks the API server just then, or a call of the driver it is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mig_manager.agent.names import PAUSED
from mig_manager.kube.kinds import MIG_NODE, NODE
from tests.e2e.proxy import Request

Moment = Callable[[Request], bool]


def pauses(asked: Request) -> bool:
    """The GPU clients are sent away."""
    return asked.patches(NODE.plural) and bool(_annotations(asked).get(PAUSED))


def resumes(asked: Request) -> bool:
    """The GPU clients may come back."""
    annotations = _annotations(asked)
    return asked.patches(NODE.plural) and PAUSED in annotations and annotations[PAUSED] is None


def wishes(asked: Request) -> bool:
    """The controller writes a new wish into a MIGNode that is there."""
    return "/spec/desired" in _operations(asked)


def grants(asked: Request) -> bool:
    """The controller gives a slot."""
    return bool((_operations(asked).get("/spec/grant") or {}).get("slot"))


def revokes(asked: Request) -> bool:
    """The controller takes a grant back."""
    return "/spec/grant/revoked" in _operations(asked)


def leads(asked: Request) -> bool:
    """The controller takes the Lease."""
    return asked.method in ("POST", "PATCH") and "leases" in asked.path.split("/")


def signature(asked: Request) -> str:
    """What a write of the agent is about, the same when it is tried again; empty for reads and Events."""
    if asked.method == "GET" or asked.path.endswith("/events"):
        return ""
    words = [asked.method, asked.path]
    body = asked.body or {}
    if asked.path.endswith("/status"):
        words += [_grant_state(asked), str(body["status"].get("step", ""))]
    elif asked.patches(NODE.plural):
        labels = body.get("metadata", {}).get("labels") or {}
        for part in (labels, _annotations(asked), body.get("spec") or {}):
            words += [f"{key}-" if value is None else f"{key}+" for key, value in sorted(part.items())]
    elif "deleteOptions" in body:
        words.append("on trial" if "dryRun" in body["deleteOptions"] else "for good")
    return " ".join(words)


def _operations(asked: Request) -> dict[str, Any]:
    """What a JSON patch of a MIGNode sets, by path."""
    patch = asked.body if asked.patches(MIG_NODE.plural) else []
    return {operation["path"]: operation.get("value") for operation in patch}


def _annotations(asked: Request) -> dict[str, str | None]:
    found: dict[str, str | None] = (asked.body or {}).get("metadata", {}).get("annotations") or {}
    return found


def _grant_state(asked: Request) -> str:
    return str((asked.body.get("status", {}).get("grant") or {}).get("state", ""))
