"""Autoscalers do not take a node away that is being drained: it looks empty, and it is not.

The annotations are those that Kubernetes' Cluster Autoscaler (FAQ, "How can I prevent Cluster Autoscaler from scaling
down a particular node?") and Karpenter ("Disruption", node-level controls) document. What they were before stands in
an annotation that is written in the same patch, so that whatever happens they become that again. Whose they are is for
``managedFields`` to say, as with the cordon: where somebody removes that record they are still known for ours, and what
a person has written since stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mig_manager.agent.names import KEPT
from mig_manager.kube.ownership import is_tracked, owners

KEPT_OFF = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_WORD = "true"


def is_kept(node: Mapping[str, Any], manager: str) -> bool:
    """Whether we keep autoscalers off the Node; ``manager`` is the name under which the agent writes."""
    return KEPT in _annotations(node) or bool(_written(node, manager))


def keep_off(node: Mapping[str, Any], manager: str) -> dict[str, str]:
    """The annotations that keep autoscalers off, with the record of what they were; empty when they do already.

    What we have written ourselves and somebody has removed the record of was nothing before, as far as anybody knows.
    """
    present, ours = _annotations(node), _written(node, manager)
    if KEPT in present:
        return {}
    former = {name: None if name in ours else present.get(name) for name in KEPT_OFF}
    return {**dict.fromkeys(KEPT_OFF, _WORD), KEPT: json.dumps(former)}


def let_go(node: Mapping[str, Any], manager: str) -> dict[str, str | None]:
    """The annotations as they were; what somebody else has changed or written meanwhile stays as it is.

    Where the API server keeps no owners the record has to be believed.
    """
    if not is_kept(node, manager):
        return {}
    present = _annotations(node)
    ours = _written(node, manager) if is_tracked(node) else {n for n in KEPT_OFF if present.get(n) == _WORD}
    former = _former(present[KEPT]) if KEPT in present else dict.fromkeys(KEPT_OFF)
    return {**{name: was for name, was in former.items() if name in ours}, KEPT: None}


def _written(node: Mapping[str, Any], manager: str) -> set[str]:
    """The annotations that bear our word and that it was we, and nobody else beside us, who wrote it."""
    present = _annotations(node)
    return {
        name
        for name in KEPT_OFF
        if present.get(name) == _WORD and owners(node, "metadata", "annotations", name) == {manager}
    }


def _former(text: str) -> dict[str, str | None]:
    """What the record says; of one that somebody has damaged only that the annotations are ours."""
    try:
        noted = dict(json.loads(text))
    except (ValueError, TypeError):
        return dict.fromkeys(KEPT_OFF)
    return {name: was for name, was in noted.items() if name in KEPT_OFF and (was is None or isinstance(was, str))}


def _annotations(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}
