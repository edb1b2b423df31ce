"""Who may be evicted, and how a round of evictions goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mig_manager.kube.drain.classify import MIRROR, Evict, Keep, Skip, classify
from mig_manager.kube.drain.once import BLOCKED_RETRY_S, Progress, drain_once
from mig_manager.kube.errors import BlockedError, ConflictError, UnavailableError
from mig_manager.kube.kinds import POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.memory import Call, MemoryCluster, Store


def pod(phase: str = "Running", **metadata: object) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata}, "status": {"phase": phase}}


def owned_by(kind: str, *, controller: bool = True) -> list[dict[str, object]]:
    return [{"kind": kind, "name": "owner", "controller": controller}]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_are_skipped(phase: str) -> None:
    """A pod that has ended uses nothing, whoever owns it."""
    assert Skip() == classify(pod(phase, ownerReferences=owned_by("DaemonSet"), annotations={MIRROR: "x"}))


def test_mirror_pods_are_kept() -> None:
    """The API's image of a static pod can be deleted, but the pod stays."""
    verdict = classify(pod(annotations={MIRROR: "x"}))
    assert isinstance(verdict, Keep)
    assert ("MirrorPod", True) == (verdict.reason, "ns/p" in verdict.message)


def test_daemon_set_pods_are_kept() -> None:
    """A DaemonSet's pod would come back at once, cordon or not."""
    verdict = classify(pod(ownerReferences=owned_by("DaemonSet")))
    assert isinstance(verdict, Keep)
    assert ("DaemonSetPod", True) == (verdict.reason, "owner" in verdict.message)


@pytest.mark.parametrize("owners", [[], owned_by("ReplicaSet"), owned_by("DaemonSet", controller=False)])
def test_others_are_evicted(owners: list[dict[str, object]]) -> None:
    """Everybody else is asked to leave; an owner that is no controller decides nothing."""
    assert Evict() == classify(pod(ownerReferences=owners))


def test_leaving_pods_are_waited_for() -> None:
    """A pod that is being deleted is not evicted again, also not a DaemonSet's."""
    assert Evict(leaving=True) == classify(pod(deletionTimestamp="t", ownerReferences=owned_by("DaemonSet")))


class Cluster:
    """Pods in memory, with the calls that were made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.errors: dict[tuple[str, str], Exception] = {}
        self.admin = MemoryCluster(Store(), "admin")
        self.client = MemoryCluster(self.admin.store, "agent", before=self._before)

    def _before(self, call: Call) -> None:
        self.calls.append((call.verb, call.name))
        if (call.verb, call.name) in self.errors:
            raise self.errors[call.verb, call.name]

    def pod(self, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A running, ready pod."""
        body = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": {"nodeName": "n"}}
        self.admin.create(POD, body, "ns")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.admin.patch(POD, name, {"status": status}, "ns", subresource="status")

    def budget(self, name: str, labels: Mapping[str, str], minimum: int) -> None:
        """A PodDisruptionBudget."""
        spec = {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}}
        self.admin.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": name}, "spec": spec}, "ns")

    def round(self, *names: str) -> Progress:
        """One round over these pods as they are."""
        return drain_once(self.client, [self.admin.get(POD, name, "ns") for name in names])


def test_all_dry_runs_come_before_the_first_eviction() -> None:
    """Everybody is asked first; then everybody goes, and the next round finds them leaving."""
    c = Cluster()
    c.pod("a")
    c.pod("b")
    assert Progress(evicted=("ns/a", "ns/b")) == c.round("a", "b")
    assert [("evict-dry-run", "a"), ("evict-dry-run", "b"), ("evict", "a"), ("evict", "b")] == c.calls
    assert Progress(leaving=("ns/a", "ns/b")) == c.round("a", "b")
    assert Progress() == drain_once(c.client, [])


def test_nobody_goes_while_one_is_blocked() -> None:
    """A budget that refuses one pod keeps all of them, and is named."""
    c = Cluster()
    c.pod("a")
    c.pod("b", {"app": "x"})
    c.budget("guard", {"app": "x"}, 1)
    progress = c.round("a", "b")
    assert ((), "EvictionBlocked", BLOCKED_RETRY_S) == (progress.evicted, progress.reason, progress.retry_after_s)
    assert "disruption budget guard" in progress.blocked
    assert "deletionTimestamp" not in c.admin.get(POD, "a", "ns")["metadata"]


def test_more_than_one_budget_is_a_block() -> None:
    """The server's 500 about several budgets is no fault of the server, and nobody goes."""
    c = Cluster()
    c.pod("a", {"app": "x"})
    c.budget("one", {"app": "x"}, 0)
    c.budget("two", {"app": "x"}, 0)
    progress = c.round("a")
    assert ((), "EvictionBlocked") == (progress.evicted, progress.reason)
    assert "more than one PodDisruptionBudget" in progress.blocked


def test_budget_that_closes_in_between() -> None:
    """What was evicted before the refusal counts, the rest waits."""
    c = Cluster()
    c.pod("a", {"app": "x"})
    c.pod("b", {"app": "x"})
    c.budget("guard", {"app": "x"}, 1)
    c.admin.store.expected_pods["ns", "guard"] = 2
    progress = c.round("a", "b")
    assert (("ns/a",), "EvictionBlocked") == (progress.evicted, progress.reason)


def test_server_says_when_to_come_back() -> None:
    """Retry-After of a refusal is obeyed."""
    c = Cluster()
    c.pod("a")
    c.errors["evict-dry-run", "a"] = BlockedError("evicting", "not now", 17.0)
    assert 17.0 == c.round("a").retry_after_s


def test_unmovable_pod_keeps_everybody() -> None:
    """While one pod cannot go at all, nobody is even asked."""
    c = Cluster()
    c.pod("a")
    body = c.admin.get(POD, "a", "ns")
    stays = pod(ownerReferences=owned_by("DaemonSet"))
    progress = drain_once(c.client, [body, stays])
    assert ("DaemonSetPod", ()) == (progress.reason, progress.evicted)
    assert [] == c.calls


def test_other_pod_of_the_name_is_let_be() -> None:
    """A pod that was deleted and made anew under its name is not the one that was meant."""
    c = Cluster()
    old = c.pod("a")
    c.admin.delete(POD, "a", "ns", grace_s=0)
    new = c.pod("a")
    assert Progress() == drain_once(c.client, [old])
    assert new["metadata"]["uid"] == c.admin.get(POD, "a", "ns")["metadata"]["uid"]
    assert "deletionTimestamp" not in c.admin.get(POD, "a", "ns")["metadata"]


def test_pod_that_goes_between_dry_run_and_eviction() -> None:
    """It is gone, which is what was wanted."""
    c = Cluster()
    c.pod("a")
    c.errors["evict", "a"] = ConflictError("evicting", "another uid")
    assert Progress() == c.round("a")


def test_other_errors_come_out() -> None:
    """A server that does not answer is not a blocked eviction."""
    c = Cluster()
    c.pod("a")
    c.errors["evict", "a"] = UnavailableError("evicting", "no answer")
    with pytest.raises(UnavailableError):
        c.round("a")


def test_grace_period_is_passed_on() -> None:
    """Seconds of grace go with the eviction."""
    c = Cluster()
    c.pod("a")
    drain_once(c.client, [c.admin.get(POD, "a", "ns")], grace_s=7)
    assert 7 == c.admin.get(POD, "a", "ns")["metadata"]["deletionGracePeriodSeconds"]


def test_finished_pods_need_no_eviction() -> None:
    """A pod that has ended is not in the way any more."""
    c = Cluster()
    assert Progress() == drain_once(c.client, [pod("Succeeded")])
