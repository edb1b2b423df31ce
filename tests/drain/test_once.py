"""How a round of evictions goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mig_manager.api.migconfig import Drain
from mig_manager.kube.drain.classify import Policy
from mig_manager.kube.drain.naming import Pod
from mig_manager.kube.drain.once import BLOCKED_RETRY_S, Progress, drain_once, judge
from mig_manager.kube.errors import BlockedError, ConflictError, NamespaceTerminatingError, UnavailableError
from mig_manager.kube.kinds import DAEMON_SET, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.memory import Call, MemoryCluster, Store
from tests.drain.pods import owned_by, pod


class Cluster:
    """Pods in memory, with the calls that were made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.policy = Policy()
        self.errors: dict[tuple[str, str], Exception] = {}
        self.admin = MemoryCluster(Store(), "admin")
        self.client = MemoryCluster(self.admin.store, "agent", before=self._before)

    def _before(self, call: Call) -> None:
        self.calls.append((call.verb, call.name))
        if (call.verb, call.name) in self.errors:
            raise self.errors[call.verb, call.name]

    def pod(self, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A running, ready pod."""
        metadata = {"name": name, "labels": dict(labels or {}), "ownerReferences": owned_by("ReplicaSet")}
        body = {"metadata": metadata, "spec": {"nodeName": "n"}}
        self.admin.create(POD, body, "ns")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.admin.patch(POD, name, {"status": status}, "ns", subresource="status")

    def budget(self, name: str, labels: Mapping[str, str], minimum: int) -> None:
        """A PodDisruptionBudget."""
        spec = {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}}
        self.admin.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": name}, "spec": spec}, "ns")

    def round(self, *names: str) -> Progress:
        """One round over these pods as they are."""
        return self.drain(*[self.admin.get(POD, name, "ns") for name in names])

    def drain(self, *pods: Pod) -> Progress:
        """One round over pods as they were at some time."""
        return drain_once(self.client, pods, self.policy, self._announce)

    def _announce(self, pods: Sequence[Pod]) -> None:
        self.calls += [("announce", pod["metadata"]["name"]) for pod in pods]


def test_all_dry_runs_come_before_the_first_eviction() -> None:
    """Everybody is asked first; then everybody goes, and the next round finds them leaving."""
    c = Cluster()
    c.pod("a")
    c.pod("b")
    assert Progress(evicted=("ns/a", "ns/b")) == c.round("a", "b")
    verbs = ("announce", "evict-dry-run", "evict")
    assert [(verb, name) for verb in verbs for name in ("a", "b")] == c.calls
    assert Progress(leaving=("ns/a", "ns/b")) == c.round("a", "b")
    assert Progress() == c.drain()
    assert 6 == len(c.calls)


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


@pytest.mark.parametrize(
    ("owner", "reason", "hopeless"), [("DaemonSet", "DaemonSetPod", True), ("Job", "WaitingForCompletion", False)]
)
def test_pod_that_does_not_go_keeps_everybody(owner: str, reason: str, hopeless: bool) -> None:
    """While one pod cannot go at all, or is waited for, nobody is even asked or told."""
    c = Cluster()
    going, staying = c.pod("a"), pod(ownerReferences=owned_by(owner))
    leaving = pod(name="l", deletionTimestamp="t")
    progress = c.drain(going, staying, leaving)
    assert (reason, (), ("ns/l",), hopeless) == (
        progress.reason,
        progress.evicted,
        progress.leaving,
        progress.hopeless,
    )
    assert "ns/p" in progress.blocked
    assert [] == c.calls


def test_who_cannot_go_speaks_before_who_is_waited_for() -> None:
    """Waiting for a Job is of no use while somebody else has to be seen to."""
    c = Cluster()
    progress = c.drain(pod(ownerReferences=owned_by("Job")), pod(name="bare"))
    assert "BarePod" == progress.reason


def test_pods_of_a_daemon_set_that_is_gone() -> None:
    """With consent its pods are evicted once it is gone, and not while it is there."""
    c = Cluster()
    c.policy = Policy(Drain(force=True))
    body = c.pod("a")
    body["metadata"]["ownerReferences"] = owned_by("DaemonSet")
    c.admin.create(DAEMON_SET, {"metadata": {"name": "owner"}, "spec": {}}, "ns")
    assert "DaemonSetPod" == c.drain(body).reason
    c.admin.delete(DAEMON_SET, "owner", "ns")
    assert ("ns/a",) == c.drain(body).evicted


def test_daemon_sets_are_not_read_without_need() -> None:
    """Without consent the answer is the same either way, so nothing is asked."""
    c = Cluster()
    assert ["DaemonSetPod"] == [
        r.reason for _, r in judge(c.client, [pod(ownerReferences=owned_by("DaemonSet"))], Policy()).refused
    ]
    assert [] == c.calls


def test_namespace_that_is_going() -> None:
    """Its pods go with it: one is waited for as leaving, and keeps nobody else."""
    c = Cluster()
    c.pod("a")
    c.admin.store.terminating.add("ns")
    assert Progress(leaving=("ns/a",)) == c.round("a")


def test_namespace_that_begins_to_go_between_dry_run_and_eviction() -> None:
    """Its pods leave with it then, and it keeps nobody else from being evicted."""
    c = Cluster()
    c.pod("a")
    c.pod("b")
    c.errors["evict", "a"] = NamespaceTerminatingError("evicting", "namespace ns is being terminated")
    assert Progress(evicted=("ns/b",), leaving=("ns/a",)) == c.round("a", "b")


def test_several_pods_under_one_budget() -> None:
    """Each dry run passes by itself; what the budget does not allow together goes in a later round, and no sooner."""
    c = Cluster()
    for name in ("a", "b", "c"):
        c.pod(name, {"app": "x"})
    c.budget("guard", {"app": "x"}, 2)
    c.admin.store.expected_pods["ns", "guard"] = 3
    assert (("ns/a",), "EvictionBlocked") == (c.round("a", "b").evicted, c.round("a", "b").reason)
    c.admin.end_pod("ns", "a")
    c.pod("elsewhere", {"app": "x"})
    assert (("ns/b",), "") == ((progress := c.round("b")).evicted, progress.reason)


def test_other_pod_of_the_name_is_let_be() -> None:
    """A pod that was deleted and made anew under its name is not the one that was meant."""
    c = Cluster()
    old = c.pod("a")
    c.admin.delete(POD, "a", "ns", grace_s=0)
    new = c.pod("a")
    assert Progress() == c.drain(old)
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
    c.policy = Policy(Drain(grace_period_s=7))
    c.round("a")
    assert 7 == c.admin.get(POD, "a", "ns")["metadata"]["deletionGracePeriodSeconds"]


def test_finished_pods_need_no_eviction() -> None:
    """A pod that has ended is not in the way any more."""
    c = Cluster()
    assert Progress() == c.drain(pod("Succeeded"))
    assert [] == c.calls
