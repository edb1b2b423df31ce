"""Who may be evicted, who is waited for, and who keeps the node as it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mig_manager.api.migconfig import Drain
from mig_manager.api.selector import LabelSelector
from mig_manager.kube.drain.classify import (
    CORDON_TAINT,
    MIRROR,
    Evict,
    Policy,
    Refuse,
    Skip,
    Verdict,
    Wait,
    asks_daemon_set,
    classify,
)
from tests.drain.pods import CREATED, owned_by, pod

DEFAULT = Policy()
FORCE = Policy(Drain(force=True))
WHOLE_NODE = Policy(whole_node=True)
EVICT_JOBS = Policy(Drain(jobs="Evict"))
PROTECTING = Policy(Drain(protected=LabelSelector((("tier", "gold"),))))
SAFE_TO_EVICT, DO_NOT_DISRUPT = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
REPLICA, DAEMON, JOB = owned_by("ReplicaSet"), owned_by("DaemonSet"), owned_by("Job", "batch/v1")
NO_DATA = {"volumes": [{"name": "config", "configMap": {}}]}
EMPTY_DIR = {"volumes": [{"name": "config", "configMap": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}]}


def reason(verdict: Verdict) -> str:
    """Kind of a verdict, with its reason."""
    return ": ".join([type(verdict).__name__, *([verdict.reason] if isinstance(verdict, Wait | Refuse) else [])])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("policy", [DEFAULT, PROTECTING, WHOLE_NODE])
def test_finished_pods_are_skipped(phase: str, policy: Policy) -> None:
    """A pod that has ended uses nothing, whoever owns it and whatever it has."""
    ended = pod(phase, EMPTY_DIR, ownerReferences=DAEMON, annotations={MIRROR: "x"}, labels={"tier": "gold"})
    assert Skip() == classify(ended, policy)


@pytest.mark.parametrize(
    ("policy", "found", "expected"),
    [
        (DEFAULT, pod(ownerReferences=REPLICA), "Evict"),
        (DEFAULT, pod(ownerReferences=owned_by("StatefulSet")), "Evict"),
        # Whoever cannot be moved.
        (DEFAULT, pod(annotations={MIRROR: "x"}), "Refuse: MirrorPod"),
        (FORCE, pod(annotations={MIRROR: "x"}, deletionTimestamp="t"), "Refuse: MirrorPod"),
        (WHOLE_NODE, pod(annotations={MIRROR: "x"}), "Skip"),
        (DEFAULT, pod(ownerReferences=DAEMON), "Refuse: DaemonSetPod"),
        (FORCE, pod(ownerReferences=DAEMON), "Refuse: DaemonSetPod"),
        (WHOLE_NODE, pod(ownerReferences=DAEMON), "Skip"),
        (WHOLE_NODE, pod("Running", EMPTY_DIR, ownerReferences=DAEMON), "Skip"),
        (DEFAULT, pod(ownerReferences=owned_by("DaemonSet", controller=False)), "Refuse: BarePod"),
        # Consent.
        (DEFAULT, pod(), "Refuse: BarePod"),
        (FORCE, pod(), "Evict"),
        (DEFAULT, pod("Pending"), "Refuse: BarePod"),
        (DEFAULT, pod("Running", EMPTY_DIR, ownerReferences=REPLICA), "Refuse: PodWithLocalData"),
        (DEFAULT, pod("Running", NO_DATA, ownerReferences=REPLICA), "Evict"),
        (FORCE, pod("Running", EMPTY_DIR, ownerReferences=REPLICA), "Refuse: PodWithLocalData"),
        (Policy(Drain(delete_empty_dir_data=True)), pod("Running", EMPTY_DIR, ownerReferences=REPLICA), "Evict"),
        (Policy(Drain(delete_empty_dir_data=True)), pod("Running", EMPTY_DIR), "Refuse: BarePod"),
        (Policy(Drain(delete_empty_dir_data=True, force=True)), pod("Running", EMPTY_DIR), "Evict"),
        # Protected.
        (PROTECTING, pod(ownerReferences=REPLICA, labels={"tier": "gold"}), "Refuse: ProtectedPod"),
        (PROTECTING, pod(ownerReferences=REPLICA, labels={"tier": "tin"}), "Evict"),
        (PROTECTING, pod(ownerReferences=REPLICA), "Evict"),
        (PROTECTING, pod(ownerReferences=JOB, labels={"tier": "gold"}), "Refuse: ProtectedPod"),
        (PROTECTING, pod(ownerReferences=REPLICA, labels={"tier": "gold"}, deletionTimestamp="t"), "Evict"),
        # Waited for.
        (DEFAULT, pod(ownerReferences=JOB), "Wait: WaitingForCompletion"),
        (DEFAULT, pod(ownerReferences=owned_by("PyTorchJob", "kubeflow.org/v1")), "Wait: WaitingForCompletion"),
        (DEFAULT, pod("Running", EMPTY_DIR, ownerReferences=JOB), "Wait: WaitingForCompletion"),
        (EVICT_JOBS, pod(ownerReferences=JOB), "Evict"),
        (EVICT_JOBS, pod("Running", EMPTY_DIR, ownerReferences=JOB), "Refuse: PodWithLocalData"),
        (DEFAULT, pod(annotations={SAFE_TO_EVICT: "false"}), "Wait: WaitingForCompletion"),
        (DEFAULT, pod(annotations={SAFE_TO_EVICT: "true"}, ownerReferences=REPLICA), "Evict"),
        (DEFAULT, pod(annotations={DO_NOT_DISRUPT: "true"}, ownerReferences=REPLICA), "Wait: WaitingForCompletion"),
        (DEFAULT, pod(annotations={DO_NOT_DISRUPT: "false"}, ownerReferences=REPLICA), "Evict"),
        (EVICT_JOBS, pod(annotations={DO_NOT_DISRUPT: "true"}, ownerReferences=REPLICA), "Evict"),
    ],
)
def test_what_becomes_of_a_pod(policy: Policy, found: dict[str, Any], expected: str) -> None:
    """Every kind of pod has one verdict under every policy."""
    assert expected == reason(classify(found, policy))


def test_leaving_pods_are_not_evicted_again() -> None:
    """A pod that is being deleted needs no consent any more, whoever owns it."""
    assert Evict(leaving=True) == classify(pod("Running", EMPTY_DIR, deletionTimestamp="t"), DEFAULT)
    assert Evict(leaving=True) == classify(pod(deletionTimestamp="t", ownerReferences=DAEMON), DEFAULT)
    assert Skip() == classify(pod(deletionTimestamp="t", ownerReferences=DAEMON), WHOLE_NODE)


def test_data_of_a_pod_whose_daemon_set_is_gone() -> None:
    """It may go without its DaemonSet, and not with its data: that takes its own consent."""
    orphan = pod("Running", EMPTY_DIR, ownerReferences=DAEMON)
    both = Policy(Drain(force=True, delete_empty_dir_data=True))
    assert "Refuse: PodWithLocalData" == reason(classify(orphan, FORCE, daemon_set_gone=True))
    assert "Evict" == reason(classify(orphan, both, daemon_set_gone=True))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(DEFAULT, "Refuse: BarePod"), (FORCE, "Evict"), (WHOLE_NODE, "Refuse: BarePod")],
)
def test_pod_whose_daemon_set_is_gone(policy: Policy, expected: str) -> None:
    """Nobody creates it again, so it takes the same consent as a bare pod."""
    assert expected == reason(classify(pod(ownerReferences=DAEMON), policy, daemon_set_gone=True))


@pytest.mark.parametrize(
    ("policy", "owners", "expected"),
    [
        (DEFAULT, DAEMON, False),
        (FORCE, DAEMON, True),
        (WHOLE_NODE, DAEMON, True),
        (FORCE, owned_by("DaemonSet", "apps.kruise.io/v1alpha1"), False),
        (FORCE, REPLICA, False),
        (FORCE, [], False),
    ],
)
def test_when_daemon_sets_are_looked_up(policy: Policy, owners: list[dict[str, object]], expected: bool) -> None:
    """Only where it changes the verdict; another project's DaemonSet counts as there."""
    assert expected is asks_daemon_set(pod(ownerReferences=owners), policy)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pod(annotations={MIRROR: "x"}), "remove its manifest"),
        (pod(ownerReferences=DAEMON), "keep DaemonSet owner off the node"),
        (pod(), "set spec.disruption.drain.force"),
        (pod("Running", EMPTY_DIR, ownerReferences=REPLICA), "set spec.disruption.drain.deleteEmptyDirData"),
        (pod(ownerReferences=JOB), "belongs to Job owner and is waited for (spec.disruption.drain.jobs: Evict"),
        (pod(ownerReferences=JOB, annotations={DO_NOT_DISRUPT: "true"}), "belongs to Job owner and is waited for"),
        (pod(annotations={DO_NOT_DISRUPT: "true"}), f"is annotated {DO_NOT_DISRUPT}=true and is waited for"),
    ],
)
def test_messages_name_the_pod_and_what_helps(found: dict[str, Any], words: str) -> None:
    """Whoever reads it knows which pod it is and what to do."""
    verdict = classify(found, DEFAULT)
    assert isinstance(verdict, Wait | Refuse)
    assert verdict.message.startswith("ns/p ")
    assert words in verdict.message


def test_messages_about_protected_and_orphaned_pods() -> None:
    """The same for what takes a policy or a look at the DaemonSet."""
    protected = classify(pod(labels={"tier": "gold"}), PROTECTING)
    orphaned = classify(pod(ownerReferences=DAEMON), DEFAULT, daemon_set_gone=True)
    assert isinstance(protected, Refuse)
    assert isinstance(orphaned, Refuse)
    assert "ns/p is among spec.disruption.drain.protectedPods" in protected.message
    assert "belonged to DaemonSet owner, which is gone; set spec.disruption.drain.force" in orphaned.message


BEFORE = datetime.fromisoformat(CREATED) - timedelta(seconds=1)
LONG_BEFORE = BEFORE - timedelta(seconds=3)
TOLERATES = {"key": CORDON_TAINT, "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "cordoned_at", "expected"),
    [
        (TOLERATES, BEFORE, "Refuse: ToleratesCordon"),
        ({"operator": "Exists"}, BEFORE, "Refuse: ToleratesCordon"),
        ({"key": "", "operator": "Exists"}, BEFORE, "Refuse: ToleratesCordon"),
        ({"key": CORDON_TAINT, "value": "", "effect": ""}, BEFORE, "Refuse: ToleratesCordon"),
        ({"operator": "Exists", "effect": "NoExecute"}, BEFORE, "Evict"),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, BEFORE, "Evict"),
        ({"key": "", "operator": "Equal"}, BEFORE, "Evict"),
        (TOLERATES, datetime.fromisoformat(CREATED), "Evict"),
        (TOLERATES, None, "Evict"),
        ({}, LONG_BEFORE, "Refuse: IgnoresCordon"),
        (TOLERATES, LONG_BEFORE, "Refuse: ToleratesCordon"),
        ({}, BEFORE - timedelta(seconds=2), "Evict"),
        ({}, None, "Evict"),
    ],
)
def test_pod_that_comes_back_to_the_cordoned_node(
    toleration: dict[str, str], cordoned_at: datetime | None, expected: str
) -> None:
    """One that came in spite of the cordon would be evicted again and again; the scheduler may lag a little behind."""
    found = pod("Running", {"tolerations": [toleration]}, ownerReferences=REPLICA)
    assert expected == reason(classify(found, Policy(cordoned_at=cordoned_at)))


@pytest.mark.parametrize(
    ("toleration", "words"),
    [(TOLERATES, f"remove its toleration of {CORDON_TAINT}"), ({}, "take nodeName out of its template")],
)
def test_messages_about_pods_that_come_back(toleration: dict[str, str], words: str) -> None:
    """Which pod it is, and what keeps it off a cordoned node."""
    found = pod("Running", {"tolerations": [toleration]}, ownerReferences=REPLICA)
    verdict = classify(found, Policy(cordoned_at=LONG_BEFORE))
    assert isinstance(verdict, Refuse)
    assert verdict.message.startswith(f"ns/p came to the cordoned node and would come again; {words}")


@pytest.mark.parametrize("toleration", [TOLERATES, {}])
def test_messages_about_bare_pods_behind_a_cordon(toleration: dict[str, str]) -> None:
    """One that a person placed there by ``nodeName`` has no template, and comes once: nothing else is claimed of it."""
    found = pod("Running", {"tolerations": [toleration]})
    verdict = classify(found, Policy(Drain(force=True), cordoned_at=LONG_BEFORE))
    assert isinstance(verdict, Refuse)
    assert "ns/p was created for the node when it was cordoned already; delete it, or wait" in verdict.message
    assert "template" not in verdict.message
    assert ("ToleratesCordon" if toleration else "IgnoresCordon") == verdict.reason
    assert "again" not in verdict.message
