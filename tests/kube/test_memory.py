"""What the cluster in memory adds for tests: faults, history, ends of pods, and budgets in all their forms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mig_manager.kube import errors
from mig_manager.kube.kinds import MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.memory import Call, MemoryCluster, Store
from mig_manager.kube.port import Object

NS = "default"
SPEC = {"schema": 1, "nodeUID": "u"}


@pytest.fixture
def store() -> Store:
    return Store(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def cluster(store: Store) -> MemoryCluster:
    made = MemoryCluster(store, "test")
    made.create(NODE, {"metadata": {"name": "n", "labels": {"a": "1"}}})
    return made


def pods(cluster: MemoryCluster, count: int, *, ready: int | None = None) -> list[str]:
    """That many running pods of which the first are ready; their uids."""
    uids = []
    for number in range(count):
        body = {"metadata": {"name": f"p{number}", "labels": {"app": "web"}}, "spec": {"nodeName": "n"}}
        uids.append(cluster.create(POD, body, NS)["metadata"]["uid"])
        is_ready = ready is None or number < ready
        condition = {"type": "Ready", "status": "True" if is_ready else "False"}
        status = {"phase": "Running", "conditions": [condition]}
        cluster.patch(POD, f"p{number}", {"status": status}, NS, subresource="status")
    return uids


def budget(cluster: MemoryCluster, **spec: object) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    cluster.create(POD_DISRUPTION_BUDGET, body, NS)


def evicted(cluster: MemoryCluster, uids: list[str]) -> int:
    """How many of the pods can be evicted, one after the other."""
    count = 0
    for number, uid in enumerate(uids):
        try:
            cluster.evict(NS, f"p{number}", uid)
        except errors.BlockedError:
            continue
        count += 1
    return count


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, 2),
        ({"minAvailable": 4}, 0),
        ({"minAvailable": 0}, 4),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "60%"}, 1),
        ({"minAvailable": "100%"}, 0),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": "25%"}, 1),
        ({"maxUnavailable": "26%"}, 2),
        ({"maxUnavailable": 9}, 4),
    ],
)
def test_budgets_of_every_form(cluster: MemoryCluster, spec: dict[str, object], expected: int) -> None:
    """Integers count, percentages of the pods are rounded up, and a pod that is leaving is no longer healthy."""
    uids = pods(cluster, 4)
    budget(cluster, **spec)
    assert expected == evicted(cluster, uids)


def test_percentages_are_of_the_wanted_replicas(cluster: MemoryCluster, store: Store) -> None:
    """With a workload behind the budget its replicas are the base, not the pods that are there."""
    store.expected_pods[NS, "b"] = 6
    uids = pods(cluster, 4)
    budget(cluster, minAvailable="50%")
    assert 1 == evicted(cluster, uids)


def test_a_pod_that_is_not_ready_goes_while_the_budget_is_healthy(cluster: MemoryCluster) -> None:
    """IfHealthyBudget: its eviction costs nothing, but only if enough others are healthy."""
    uids = pods(cluster, 3, ready=2)
    budget(cluster, minAvailable=2)
    cluster.evict(NS, "p2", uids[2])
    with pytest.raises(errors.BlockedError):
        cluster.evict(NS, "p0", uids[0])


def test_a_pod_that_is_not_ready_waits_for_an_unhealthy_budget(cluster: MemoryCluster) -> None:
    """Without enough healthy pods it is blocked, unless the policy says AlwaysAllow."""
    uids = pods(cluster, 3, ready=1)
    budget(cluster, minAvailable=2)
    with pytest.raises(errors.BlockedError):
        cluster.evict(NS, "p2", uids[2])
    cluster.patch(POD_DISRUPTION_BUDGET, "b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, NS)
    cluster.evict(NS, "p2", uids[2])
    assert "deletionTimestamp" in cluster.get(POD, "p2", NS)["metadata"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, 0),
        (None, 2),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, 0),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, 2),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 0),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, 2),
    ],
)
def test_whom_a_budget_selects(cluster: MemoryCluster, selector: object, expected: int) -> None:
    """An empty selector means every pod, none means no pod; expressions as for every LabelSelector."""
    uids = pods(cluster, 2)
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": selector}}
    cluster.create(POD_DISRUPTION_BUDGET, body, NS)
    assert expected == evicted(cluster, uids)


def test_an_ending_pod_goes_when_the_kubelet_ends_it(cluster: MemoryCluster) -> None:
    """Deletion only marks a pod on a node; its end removes it, and a pod nobody deletes does not end."""
    pods(cluster, 1)
    with pytest.raises(ValueError, match="is not being deleted"):
        cluster.end_pod(NS, "p0")
    cluster.delete(POD, "p0", NS)
    assert 30 == cluster.get(POD, "p0", NS)["metadata"]["deletionGracePeriodSeconds"]
    cluster.end_pod(NS, "p0")
    with pytest.raises(errors.NotFoundError):
        cluster.get(POD, "p0", NS)


def test_a_shorter_grace_period_wins(cluster: MemoryCluster) -> None:
    """A second deletion shortens the grace period and never lengthens it."""
    pods(cluster, 1)
    for grace, expected in ((20, 20), (10, 10), (25, 10)):
        cluster.delete(POD, "p0", NS, grace_s=grace)
        metadata = cluster.get(POD, "p0", NS)["metadata"]
        found = metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]
        assert (expected, f"2026-01-01T00:00:{expected}Z") == found


def test_faults_before_a_call_leave_the_cluster_alone(cluster: MemoryCluster) -> None:
    """A request that fails before it arrives has changed nothing."""

    def refuse(call: Call) -> None:
        if call.verb == "patch":
            raise errors.UnavailableError("patching", "no route to host")

    cluster.before = refuse
    with pytest.raises(errors.UnavailableError):
        cluster.patch(NODE, "n", {"metadata": {"labels": {"a": "2"}}})
    assert "1" == cluster.get(NODE, "n")["metadata"]["labels"]["a"]


def test_faults_after_a_call_lose_the_answer_only(cluster: MemoryCluster) -> None:
    """A request whose answer is lost was carried out."""

    def lose(call: Call) -> None:
        if call.verb == "patch":
            raise errors.UnavailableError("patching", "timed out")

    cluster.after = lose
    with pytest.raises(errors.UnavailableError):
        cluster.patch(NODE, "n", {"metadata": {"labels": {"a": "2"}}})
    assert "2" == cluster.get(NODE, "n")["metadata"]["labels"]["a"]


def test_hooks_see_what_is_called(cluster: MemoryCluster) -> None:
    """Verb, kind, name, namespace, body and subresource, for every verb."""
    seen: list[Call] = []
    cluster.before = seen.append
    cluster.list(NODE)
    cluster.patch(NODE, "n", {"status": {}}, subresource="status")
    uid = pods(cluster, 1)[0]
    cluster.evict(NS, "p0", uid, dry_run=True)
    cluster.delete(POD, "p0", NS)
    assert Call("patch", NODE, "n", None, {"status": {}}, "status") == seen[1]
    assert ["list", "patch", "create", "patch", "evict-dry-run", "delete"] == [call.verb for call in seen]


def test_history_keeps_every_version(cluster: MemoryCluster, store: Store) -> None:
    """Old copies can be handed out, to the removal and beyond, and changing them changes nothing."""
    cluster.patch(NODE, "n", {"metadata": {"labels": {"a": "2"}}})
    cluster.delete(NODE, "n")
    cluster.create(NODE, {"metadata": {"name": "n", "labels": {"a": "3"}}})
    versions = store.history(NODE, "n")
    labels = [None if version.body is None else version.body["metadata"]["labels"]["a"] for version in versions]
    assert ["1", "2", None, "3"] == labels
    assert [version.resource_version for version in versions] == sorted(
        version.resource_version for version in versions
    )
    first = versions[0].body
    assert first is not None
    first["metadata"]["labels"]["a"] = "changed"
    again = store.history(NODE, "n")[0].body
    assert again is not None
    assert "1" == again["metadata"]["labels"]["a"]


def test_history_since_is_a_watch(cluster: MemoryCluster, store: Store) -> None:
    """From the version of a list on, every write comes once and in order."""
    version = int(cluster.list(NODE).resource_version)
    cluster.create(MIG_NODE, {"metadata": {"name": "n"}, "spec": SPEC})
    cluster.delete(NODE, "n")
    assert [(MIG_NODE, True), (NODE, False)] == [
        (event.key[0], event.body is not None) for event in store.history_since(version)
    ]


def test_a_recreated_object_is_another(cluster: MemoryCluster) -> None:
    """The uid is new and the generation starts anew."""

    def make() -> Object:
        return cluster.create(MIG_NODE, {"metadata": {"name": "m", "uid": "mine"}, "spec": SPEC})

    first = make()
    cluster.patch(MIG_NODE, "m", {"spec": {"schema": 2}})
    cluster.delete(MIG_NODE, "m")
    second = make()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert 1 == second["metadata"]["generation"]


def test_what_is_owned_by_something_else_stays(cluster: MemoryCluster) -> None:
    """Garbage collection removes only objects all of whose owners are gone."""
    node = cluster.get(NODE, "n")["metadata"]["uid"]
    for name, uids in (("kept", [node, "gone"]), ("lost", ["gone"]), ("free", [])):
        references = [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": uid} for uid in uids]
        cluster.create(MIG_NODE, {"metadata": {"name": name, "ownerReferences": references}, "spec": SPEC})
    cluster.collect_garbage()
    assert ["free", "kept"] == [body["metadata"]["name"] for body in cluster.list(MIG_NODE).items]
