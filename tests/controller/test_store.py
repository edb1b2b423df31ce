"""Copies of objects never go back in time, and hold only what is needed."""

from __future__ import annotations

from typing import Any

import pytest

from mig_manager.agent.names import CORDONED
from mig_manager.api.marks import CORDON_ANNOTATION
from mig_manager.controller.agents import Agents, Timers
from mig_manager.controller.records import AgentRecord, ConfigRecord, MIGNodeRecord, NodeRecord
from mig_manager.controller.store import Store, Table
from mig_manager.kube.errors import GoneError
from mig_manager.kube.port import Listing
from tests.controller.builders import Clock, config_object, node, ready_status

REMEDY = "it came past the schema: write it anew, or delete the object so that it is made anew"


def item(name: str, version: int, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata, "status": ready_status()}


@pytest.fixture
def table() -> Table[NodeRecord]:
    return Store().nodes


def test_the_newest_version_wins(table: Table[NodeRecord]) -> None:
    """Versions are numbers, not texts: 9 is before 10. The same version once more changes nothing."""
    assert table.put(item("n1", 10, a="new"))
    assert not table.put(item("n1", 9, a="old"))
    assert not table.put(item("n1", 10, a="new"))
    assert ({"a": "new"}, 10) == (table.snapshot()["n1"].labels, table.version("n1"))


def test_what_does_not_matter_is_no_change(table: Table[NodeRecord]) -> None:
    """A heartbeat is a new version of the same record: nobody is rung, and the next write names the new version."""
    table.put(item("n1", 1))
    record = table.snapshot()["n1"]
    assert not table.put({**item("n1", 2), "spec": {"podCIDR": "10.0.0.0/24"}})
    records, versions = table.both()
    assert records["n1"] is record
    assert {"n1": 2} == versions


def test_a_deletion_is_final(table: Table[NodeRecord]) -> None:
    """An event from before the deletion does not bring the object back; one that was made anew is there."""
    table.put(item("n1", 1))
    assert table.remove("n1", 3)
    assert not table.remove("n1", 3)
    assert not table.put(item("n1", 2))
    assert table.put(item("n1", 4))


def test_an_old_deletion_is_ignored(table: Table[NodeRecord]) -> None:
    """The object was deleted and made anew before the event of its deletion came."""
    table.put(item("n1", 5))
    assert not table.remove("n1", 4)
    assert "n1" in table.snapshot()


def test_a_list_tells_what_is_gone(table: Table[NodeRecord]) -> None:
    """What is missing in it is gone, unless it is newer than the list."""
    for name, version in (("gone", 1), ("kept", 2), ("newer", 9)):
        table.put(item(name, version))
    pages = [Listing((item("kept", 2),), "7"), Listing((item("made", 6),), "7")]
    assert table.sync(pages)
    assert {"kept", "newer", "made"} == set(table.snapshot())
    assert not table.put(item("gone", 3))
    assert not table.sync([Listing((item("kept", 2), item("made", 6), item("newer", 9)), "10")])
    assert -1 == table.version("gone")


def test_a_list_that_breaks_off_removes_nothing(table: Table[NodeRecord]) -> None:
    """Half a list is no reason to forget the other half."""

    def pages() -> Any:  # noqa: ANN401 - a generator that fails
        yield Listing((item("n1", 5),), "7")
        raise GoneError("listing nodes", "too old")

    table.put(item("n2", 2))
    with pytest.raises(GoneError):
        table.sync(pages())
    assert {"n1", "n2"} == set(table.snapshot())


def test_pods_are_kept_by_namespace() -> None:
    """Two pods of one name are two."""
    store = Store()
    for number, namespace in enumerate(("a", "b")):
        pod = item("agent", number + 1)
        pod["metadata"]["namespace"] = namespace
        store.agents.put({**pod, "spec": {"nodeName": "n1"}})
    assert {"a/agent": AgentRecord("n1", ready=True), "b/agent": AgentRecord("n1", ready=True)} == (
        store.agents.snapshot()
    )


@pytest.mark.parametrize(
    ("spec", "annotations", "cordoned"),
    [
        ({}, {}, False),
        ({"unschedulable": True}, {}, True),
        ({"unschedulable": True}, {CORDON_ANNOTATION: "1"}, False),
    ],
)
def test_cordons(spec: dict[str, Any], annotations: dict[str, str], cordoned: bool) -> None:
    """Our own cordon does not make a node unavailable anyway."""
    obj = item("n1", 1)
    obj["metadata"]["annotations"] = annotations
    assert cordoned == NodeRecord.from_object({**obj, "spec": spec}).cordoned


def test_the_agent_writes_the_annotation_that_is_read_here() -> None:
    """Agent and controller agree on the name."""
    assert CORDONED == CORDON_ANNOTATION


def test_pods_that_leave_are_no_agents() -> None:
    """A pod that is being deleted does not answer for long."""
    pod = {**item("agent", 1), "spec": {"nodeName": "n1"}}
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert AgentRecord("n1", ready=False) == AgentRecord.from_object(pod)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schema": 2, "nodeUID": "x"}, "spec.schema 2 is not a version that this program knows; it knows 1"),
        ({"schema": 1}, f"spec.nodeUID: this field is missing; {REMEDY}"),
        ({"schema": 1, "nodeUID": "x", "grant": 7}, f"spec.grant: 7 is not a mapping; {REMEDY}"),
        (7, f"spec: 7 is not a mapping; {REMEDY}"),
    ],
)
def test_mignodes_that_cannot_be_read(spec: object, text: str) -> None:
    """They become records that say so: one bad object must not stop the watch of the others."""
    obj = item("n1", 1)
    obj["metadata"]["generation"] = 1
    assert text == MIGNodeRecord.from_object({**obj, "spec": spec}).unreadable


def test_a_config_is_validated_once_per_generation() -> None:
    """Its own status, written every second during a rollout, does not cost a validation each time."""
    obj = config_object()
    obj["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "1"}
    first = ConfigRecord.from_object(obj)
    second = ConfigRecord.from_object({**obj, "status": {"observedGeneration": 1}}, first)
    assert second.wishes is first.wishes
    obj["metadata"]["generation"] = 2
    assert ConfigRecord.from_object(obj, first).wishes is not first.wishes


# How long something has been so


def test_timers() -> None:
    """They count from the first time that a state is seen, and begin anew with another state."""
    clock = Clock()
    timers = Timers(clock)
    assert 0 == timers.lasting("n1", "agent", "NoAgent")
    clock.seconds += 5
    assert 5 == timers.lasting("n1", "agent", "NoAgent")
    assert 0 == timers.lasting("n1", "agent", "Other")
    clock.seconds += 5
    timers.forget(["n1"])
    assert 5 == timers.lasting("n1", "agent", "Other")
    timers.forget([])
    assert 0 == timers.lasting("n1", "agent", "Other")
    assert 0 == timers.lasting("n1", "agent", "")


def test_agents_by_their_pods() -> None:
    """One Ready pod is enough; none means NoAgent, and only such that are not Ready AgentNotResponding."""
    pods = [AgentRecord("n1", ready=False), AgentRecord("n1", ready=True), AgentRecord("n2", ready=False)]
    agents = Agents(pods, Timers(Clock()))
    reasons = [agents.judge(node(name))[0] for name in ("n1", "n2", "n3")]
    assert ["", "AgentNotResponding", "NoAgent"] == reasons
    assert [True, True, False] == [agents.runs_on(name) for name in ("n1", "n2", "n3")]


def test_agents_by_their_answers() -> None:
    """A Ready pod that has not answered for a minute counts as away; one that is at work need not answer."""
    clock = Clock()
    agents = Agents(None, Timers(clock))
    waiting = node(observed_generation=4)
    agents.judge(waiting)
    clock.seconds += 60
    assert ("AgentNotResponding", 60) == agents.judge(waiting)
    assert ("", 0) == agents.judge(node())
    assert agents.runs_on("n1")
