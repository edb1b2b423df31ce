"""Taking everything of ours off a Node: the one patch with which the agent leaves, and a person cleans up after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mig_manager.agent.autoscalers import let_go
from mig_manager.agent.clients import Pause, resume_patch
from mig_manager.agent.identity import cordon_of
from mig_manager.agent.names import CORDONED, STARTUP_TAINT


def handed_back(node: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The merge patch by which clients come back, autoscalers may have the Node again, and our cordon goes.

    ``manager`` is the name under which the agent writes. Somebody else's cordon stays, whatever our annotation says.
    """
    pause = Pause.of(node)
    body: dict[str, Any] = resume_patch(pause, node) if pause is not None else {"metadata": {}}
    kept = let_go(node, manager)
    if kept:
        body["metadata"].setdefault("annotations", {}).update(kept)
    cordon = cordon_of(node, manager)
    if cordon.noted or cordon.unmarked:
        body["metadata"].setdefault("annotations", {})[CORDONED] = None
        body["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
    if cordon.ours or cordon.unmarked:
        body.setdefault("spec", {})["unschedulable"] = None
    return body


def untainted(body: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """The patch, which removes the startup taint too. Lists are written whole, so it carries the Node's version."""
    if not startup_tainted(node):
        return dict(body)
    spec = dict(body.get("spec", {}))
    taints = spec.get("taints", node["spec"]["taints"])
    spec["taints"] = [t for t in taints if t["key"] != STARTUP_TAINT]
    metadata = {**body["metadata"], "resourceVersion": node["metadata"]["resourceVersion"]}
    return {**body, "metadata": metadata, "spec": spec}


def startup_tainted(node: Mapping[str, Any]) -> bool:
    """Whether the Node still bears the taint with which it was registered."""
    return any(t["key"] == STARTUP_TAINT for t in node.get("spec", {}).get("taints") or ())
