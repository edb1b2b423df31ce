"""What becomes of one pod that is in the way. Pure; the rules and their consents are those of ``kubectl drain``.

What is different, and why. A pod that has finished is left alone: it uses nothing. Static pods are an obstacle here,
where kubectl passes over them: they would go on using what has to go. Jobs can be waited for, pods can be protected,
and a pod that comes back to a cordoned node is not evicted again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mig_manager.api.migconfig import Drain
from mig_manager.api.selector import LabelSelector

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the API's image of a static pod: ``v1.MirrorPodAnnotationKey``."""

FINISHED = frozenset({"Succeeded", "Failed"})

DO_NOT_DISRUPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Annotations by which workloads tell the Cluster Autoscaler and Karpenter that they must not be interrupted."""

CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""The taint that stands for a cordon: a pod that tolerates it is scheduled to cordoned nodes."""

SCHEDULER_LAG = timedelta(seconds=3)
"""For so long after a cordon the scheduler may not have heard of it, and clocks may differ."""

DRAIN = "spec.disruption.drain"


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may be made to leave.

    ``whole_node`` says that the whole node goes down with its pods: then those of DaemonSets and static pods, which go
    and come with it, are passed over, as ``kubectl drain --ignore-daemonsets`` does. ``cordoned_at`` is since when the
    node is closed. ``spared`` are protected as well: somebody has just said so, and the terms do not know it yet.
    """

    terms: Drain = field(default_factory=Drain)
    whole_node: bool = False
    cordoned_at: datetime | None = None
    spared: LabelSelector | None = None


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


def is_mirror(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is the API's image of a static pod, which the kubelet runs whatever becomes of it."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def classify(pod: Mapping[str, Any], policy: Policy, *, daemon_set_gone: bool = False) -> Verdict:
    """What becomes of a pod that is in the way.

    ``daemon_set_gone`` says of a DaemonSet's pod that there is no such DaemonSet (any more); see ``asks_daemon_set``.
    """
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if pod.get("status", {}).get("phase") in FINISHED:
        return Skip()
    if is_mirror(pod):
        text = f"{name} is a static pod of the kubelet and cannot be evicted; remove its manifest from the node"
        return Skip() if policy.whole_node else Refuse("MirrorPod", text)
    of_daemon_set = _of_daemon_set(name, pod, policy, gone=daemon_set_gone)
    if "deletionTimestamp" in metadata:
        # Where DaemonSets are passed over nobody waits for the next of these pods either.
        return of_daemon_set if isinstance(of_daemon_set, Skip) else Evict(leaving=True)
    return (
        _protected(name, metadata, policy)
        or of_daemon_set
        or _waited_for(name, pod, policy)
        or _without_consent(name, pod, policy)
        or _coming_back(name, pod, policy)
        or Evict()
    )


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
    return str(controller["apiVersion"]).startswith("apps/") and (policy.terms.force or policy.whole_node)


def _protected(name: str, metadata: Mapping[str, Any], policy: Policy) -> Verdict | None:
    labels = metadata.get("labels") or {}
    if not any(who is not None and who.matches(labels) for who in (policy.terms.protected, policy.spared)):
        return None
    return Refuse("ProtectedPod", f"{name} is among {DRAIN}.protectedPods; move it off the node when it may go")


def _of_daemon_set(name: str, pod: Mapping[str, Any], policy: Policy, *, gone: bool) -> Verdict | None:
    """What becomes of a DaemonSet's pod; one that was orphaned and may go is like any other."""
    controller = controller_of(pod)
    if controller is None or controller["kind"] != "DaemonSet":
        return None
    owner = f"DaemonSet {controller['name']}"
    if gone:
        text = f"{name} belonged to {owner}, which is gone; set {DRAIN}.force, or delete it"
        return None if policy.terms.force else Refuse("BarePod", text)
    text = f"{name} would come back at once; keep {owner} off the node"
    return Skip() if policy.whole_node else Refuse("DaemonSetPod", text)


def _waited_for(name: str, pod: Mapping[str, Any], policy: Policy) -> Verdict | None:
    """A Job's pod, a training job's of any project, or one that says so itself."""
    if policy.terms.jobs != "WaitForCompletion":
        return None
    controller, annotations = controller_of(pod), pod["metadata"].get("annotations") or {}
    why = [f"is annotated {key}={value}" for key, value in DO_NOT_DISRUPT.items() if annotations.get(key) == value]
    if controller is not None and controller["kind"].endswith("Job"):
        why.insert(0, f"belongs to {controller['kind']} {controller['name']}")
    if not why:
        return None
    return Wait("WaitingForCompletion", f"{name} {why[0]} and is waited for ({DRAIN}.jobs: Evict would evict it)")


def _without_consent(name: str, pod: Mapping[str, Any], policy: Policy) -> Verdict | None:
    """What is lost with the pod: its data, or the pod itself."""
    terms = policy.terms
    volumes = pod["spec"].get("volumes") or ()
    if not terms.delete_empty_dir_data and any("emptyDir" in volume for volume in volumes):
        text = (
            f"{name} would lose the data of emptyDir volumes; set {DRAIN}.deleteEmptyDirData, or move it off the node"
        )
        return Refuse("PodWithLocalData", text)
    if not terms.force and controller_of(pod) is None:
        text = f"{name} has no controller that would create it again; set {DRAIN}.force, or delete it"
        return Refuse("BarePod", text)
    return None


def _coming_back(name: str, pod: Mapping[str, Any], policy: Policy) -> Verdict | None:
    """A pod that was created after the cordon, and came nevertheless: evicted, it would come again.

    It tolerates the cordon, or nobody asked: ``spec.nodeName`` stands in a template, or its scheduler does not care. A
    bare pod would not come again by itself, but whoever has just put it there past the cordon wants it there.
    """
    if policy.cordoned_at is None:
        return None
    behind = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) - policy.cordoned_at
    if behind <= timedelta():
        return None
    tolerates = _tolerates_cordon(pod)
    if not tolerates and behind <= SCHEDULER_LAG:
        return None
    word = "ToleratesCordon" if tolerates else "IgnoresCordon"
    if controller_of(pod) is None:
        text = f"{name} was created for the node when it was cordoned already; delete it, or wait until it has ended"
        return Refuse(word, text)
    cure = "take nodeName out of its template, or have its scheduler keep off cordoned nodes"
    if tolerates:
        cure = f"remove its toleration of {CORDON_TAINT}"
    return Refuse(word, f"{name} came to the cordoned node and would come again; {cure}")


def _tolerates_cordon(pod: Mapping[str, Any]) -> bool:
    return any(
        t.get("key") in (None, "", CORDON_TAINT) and t.get("effect") in (None, "", "NoSchedule")
        for t in pod["spec"].get("tolerations") or ()
        if t.get("operator") == "Exists" or t.get("key") == CORDON_TAINT
    )
