"""What becomes of one pod that is in the way. Pure; the rules and their consents are those of ``kubectl drain``.

What is different, and why. A pod that has finished is left alone: it uses nothing. Static pods are an obstacle here,
where kubectl passes over them: they would go on using what has to go. Jobs can be waited for, pods can be protected,
and a pod that comes back to a cordoned node is not evicted a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mig_manager.api.migconfig import Drain

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the API's image of a static pod: ``v1.MirrorPodAnnotationKey``."""

FINISHED = frozenset({"Succeeded", "Failed"})

DO_NOT_DISRUPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Annotations by which workloads tell the Cluster Autoscaler and Karpenter that they must not be interrupted."""

CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""The taint that stands for a cordon: a pod that tolerates it is scheduled to cordoned nodes."""

DRAIN = "spec.disruption.drain"


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may be made to leave.

    ``whole_node`` says that the whole node goes down with its pods: then those of DaemonSets and static pods, which go
    and come with it, are passed over, as ``kubectl drain --ignore-daemonsets`` does. ``cordoned_at`` is since when the
    node is closed.
    """

    terms: Drain = field(default_factory=Drain)
    whole_node: bool = False
    cordoned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """It is asked to leave, or is leaving already."""

    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """It will end by itself, and is waited for; nobody else is evicted meanwhile."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Skip:
    """It is not in the way."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It must not be evicted, so nothing can be done here: ``reason`` is CamelCase, ``message`` says what helps."""

    reason: str
    message: str


Verdict = Evict | Wait | Skip | Refuse


def classify(  # noqa: PLR0911 - a list of rules
    pod: Mapping[str, Any], policy: Policy, *, daemon_set_gone: bool = False
) -> Verdict:
    """What becomes of a pod that is in the way.

    ``daemon_set_gone`` says of a DaemonSet's pod that there is no such DaemonSet (any more); see ``asks_daemon_set``.
    """
    metadata, terms = pod["metadata"], policy.terms
    name = f"{metadata['namespace']}/{metadata['name']}"
    if pod.get("status", {}).get("phase") in FINISHED:
        return Skip()
    if MIRROR in (metadata.get("annotations") or {}):
        text = f"{name} is a static pod of the kubelet and cannot be evicted; remove its manifest from the node"
        return Skip() if policy.whole_node else Refuse("MirrorPod", text)
    if "deletionTimestamp" in metadata:
        return Evict(leaving=True)
    if terms.protected is not None and terms.protected.matches(metadata.get("labels") or {}):
        return Refuse("ProtectedPod", f"{name} is among {DRAIN}.protectedPods; delete it when it may go")
    controller = controller_of(pod)
    if controller is not None and controller["kind"] == "DaemonSet":
        return _of_daemon_set(name, controller, policy, gone=daemon_set_gone)
    reason = _why_wait(metadata, controller) if terms.jobs == "WaitForCompletion" else ""
    if reason:
        return Wait("WaitingForCompletion", f"{name} {reason} and is waited for ({DRAIN}.jobs: Evict would evict it)")
    if not terms.delete_empty_dir_data and _has_empty_dir(pod):
        text = f"{name} would lose the data of its emptyDir volumes; set {DRAIN}.deleteEmptyDirData, or delete it"
        return Refuse("PodWithLocalData", text)
    if controller is None and not terms.force:
        text = f"{name} has no controller that would create it again; set {DRAIN}.force, or delete it"
        return Refuse("BarePod", text)
    if policy.cordoned_at is not None and _came_past(pod, policy.cordoned_at):
        text = f"{name} came to the cordoned node and would come again; remove its toleration of {CORDON_TAINT}"
        return Refuse("ToleratesCordon", text)
    return Evict()


def controller_of(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of what manages the pod; ``None`` for a bare one. An owner that is no controller is none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def asks_daemon_set(pod: Mapping[str, Any], policy: Policy) -> bool:
    """Whether the verdict depends on whether the pod's DaemonSet is still there.

    Without ``force`` nobody is evicted either way, unless DaemonSets are passed over. A DaemonSet of another project's
    kind counts as there: it creates the pod again.
    """
    controller = controller_of(pod)
    if controller is None or controller["kind"] != "DaemonSet":
        return False
    return str(controller.get("apiVersion", "")).startswith("apps/") and (policy.terms.force or policy.whole_node)


def _of_daemon_set(name: str, controller: Mapping[str, Any], policy: Policy, *, gone: bool) -> Verdict:
    owner = f"DaemonSet {controller['name']}"
    if gone:
        text = f"{name} belonged to {owner}, which is gone; set {DRAIN}.force, or delete it"
        return Evict() if policy.terms.force else Refuse("BarePod", text)
    text = f"{name} would come back at once; keep {owner} off the node"
    return Skip() if policy.whole_node else Refuse("DaemonSetPod", text)


def _why_wait(metadata: Mapping[str, Any], controller: Mapping[str, Any] | None) -> str:
    """Why the pod is one that is waited for: a Job's, a training job's of any project, or one that says so itself."""
    if controller is not None and controller["kind"].endswith("Job"):
        return f"belongs to {controller['kind']} {controller['name']}"
    annotations = metadata.get("annotations") or {}
    marks = [f"{key}={value}" for key, value in DO_NOT_DISRUPT.items() if annotations.get(key) == value]
    return f"is annotated {marks[0]}" if marks else ""


def _has_empty_dir(pod: Mapping[str, Any]) -> bool:
    return any("emptyDir" in volume for volume in pod.get("spec", {}).get("volumes") or ())


def _came_past(pod: Mapping[str, Any], cordoned_at: datetime) -> bool:
    """Whether the pod was created after the cordon, and tolerates it."""
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return created > cordoned_at and any(
        t.get("key") in (None, "", CORDON_TAINT) and t.get("effect") in (None, "", "NoSchedule")
        for t in pod.get("spec", {}).get("tolerations") or ()
        if t.get("operator") == "Exists" or t.get("key") == CORDON_TAINT
    )
