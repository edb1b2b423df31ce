"""Autoscalers do not take a node away that is being drained: it looks empty, and it is not.

The annotations are those that Kubernetes' Cluster Autoscaler (FAQ, "How can I prevent Cluster Autoscaler from scaling
down a particular node?") and Karpenter ("Disruption", node-level controls) document. What they were before stands in
an annotation that is written in the same patch, so that whatever happens they become that again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mig_manager.agent.names import KEPT

KEPT_OFF = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_WORD = "true"


def is_kept(node: Mapping[str, Any]) -> bool:
    """Whether we keep autoscalers off the Node."""
    return KEPT in _annotations(node)


def keep_off(node: Mapping[str, Any]) -> dict[str, str]:
    """The annotations that keep autoscalers off, with the record of what they were; empty when they do already."""
    present = _annotations(node)
    if KEPT in present:
        return {}
    former = {name: present.get(name) for name in KEPT_OFF}
    return {**dict.fromkeys(KEPT_OFF, _WORD), KEPT: json.dumps(former)}


def let_go(node: Mapping[str, Any]) -> dict[str, str | None]:
    """The annotations as they were; what somebody else has changed meanwhile stays as it is."""
    present = _annotations(node)
    if KEPT not in present:
        return {}
    former = _former(present[KEPT])
    return {**{name: was for name, was in former.items() if present.get(name) == _WORD}, KEPT: None}


def _former(text: str) -> dict[str, str | None]:
    """What the record says; of one that somebody has damaged only that the annotations are ours."""
    try:
        noted = dict(json.loads(text))
    except (ValueError, TypeError):
        return dict.fromkeys(KEPT_OFF)
    return {name: was for name, was in noted.items() if name in KEPT_OFF and (was is None or isinstance(was, str))}


def _annotations(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}
