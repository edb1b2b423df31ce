"""Whether one pod may be evicted. Pure; the order of the rules is that of ``kubectl drain``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIRROR = "kubernetes.io/config.mirror"
FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Evict:
    """It is asked to leave, or is leaving already."""

    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """It uses nothing any more."""


@dataclass(frozen=True, slots=True)
class Keep:
    """It cannot be evicted, so what it uses cannot go: ``reason`` is CamelCase, ``message`` says what to do."""

    reason: str
    message: str


Verdict = Evict | Skip | Keep


def classify(pod: Mapping[str, Any]) -> Verdict:
    """What becomes of a pod that is in the way."""
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if pod.get("status", {}).get("phase") in FINISHED:
        return Skip()
    if MIRROR in (metadata.get("annotations") or {}):
        return Keep("MirrorPod", f"{name} is a static pod of the kubelet; remove its manifest from the node")
    if "deletionTimestamp" in metadata:
        return Evict(leaving=True)
    controller = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    if controller is not None and controller["kind"] == "DaemonSet":
        return Keep("DaemonSetPod", f"{name} would come back at once; keep DaemonSet {controller['name']} off the node")
    return Evict()
