"""The judge of the matrices is judged: each promise, broken on purpose by a rogue agent, is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.kube.errors import BlockedError
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.memory import MemoryCluster, budgets
from tests.agent.stories import Make
from tests.agent.worlds import A30, A100, AGENT, NODE_NAME, PLUGIN_GATE, World


def rogue(w: World) -> MemoryCluster:
    """An agent's client that does what it is told, with the judge looking on."""
    return MemoryCluster(w.store, AGENT, w.judge.before, w.judge.after)


def metadata(what: str, **values: str | None) -> dict[str, Any]:
    """A patch of labels or annotations."""
    return {"metadata": {what: values}}


def pause_note(gates: Mapping[str, str | None]) -> dict[str, Any]:
    """A patch that notes a pause with these former values."""
    text = json.dumps({"labels": gates, "taint": False, "restart": []})
    return metadata("annotations", **{PAUSED: text})


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"spec": {"unschedulable": None}}, "somebody else's was lifted"),
        (metadata("annotations", **{CORDONED: "{}"}), "claims a cordon that is not ours"),
        (pause_note({PLUGIN_GATE: "false"}), "was false, and it was true"),
        (metadata("labels", zone="b"), "label zone was changed"),
        (metadata("annotations", note=None), "annotation note was changed"),
    ],
    ids=["cordon lifted", "cordon claimed", "pause noted wrongly", "label", "annotation"],
)
def test_write_to_the_node(world: Make, patch: dict[str, Any], said: str) -> None:
    """A person's cordon, what a gate was, and labels and annotations of others are not the agent's to change."""
    w = world(A100)
    w.admin.patch(NODE, NODE_NAME, metadata("labels", zone="a"))
    w.admin.patch(NODE, NODE_NAME, metadata("annotations", note="mine"))
    w.cordon()
    with pytest.raises(AssertionError, match=said):
        rogue(w).patch(NODE, NODE_NAME, patch)


def test_cordon_taken_over(world: Make) -> None:
    """A cordon that changes hands under the agent's write was not the agent's to take."""
    w = world(A100)
    w.cordon()
    persons = w.node
    agent = MemoryCluster(w.store, AGENT)
    agent.patch(NODE, NODE_NAME, {"spec": {"unschedulable": None}})
    agent.patch(NODE, NODE_NAME, {"spec": {"unschedulable": True}})
    with pytest.raises(AssertionError, match="was taken"):
        w.judge._node_written(persons, w.node)


def test_workload_deleted(world: Make) -> None:
    """Pods of others leave by eviction only: a deletion asks no budget."""
    w = world(A100, cut=(("1g", 0),))
    w.pod("p")
    with pytest.raises(AssertionError, match="deleted and not evicted"):
        rogue(w).delete(POD, "p", "default")


def test_budget(world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API in memory refuses what a budget forbids; did it not, the judge would see it."""
    w = world(A100, cut=(("1g", 0),))
    w.pod("p", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    uid = w.admin.get(POD, "p", "default")["metadata"]["uid"]
    with pytest.raises(BlockedError):
        rogue(w).evict("default", "p", uid)
    monkeypatch.setattr(budgets, "judge", lambda *_: budgets.ALLOWED)
    with pytest.raises(AssertionError, match="left 0 of 1 pods of pdb"):
        rogue(w).evict("default", "p", uid)


def test_slice_in_use_destroyed(world: Make) -> None:
    """A slice that a pod uses is missed, also when another has its id and place by then."""
    w = world(A100, cut=(("1g", 0),))
    w.pod("p")
    w.check()
    with w.machine.change() as state:
        state.cards[0].instances[0].generation += 1
    with pytest.raises(AssertionError, match="the slice of default/p was destroyed"):
        w.check()


def test_bystander_changed(world: Make) -> None:
    """A card that nobody wants changed is looked at as a whole: slices that nobody uses, and the mode."""
    w = world(A100, A30)
    w.judge.stand_by(w.machine.read(), w.machine.card(1).uuid)
    w.check()
    w.machine.set_mig(1, enabled=False)
    with pytest.raises(AssertionError, match="which nobody wants changed"):
        w.check()


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (lambda w: w.admin.patch(NODE, NODE_NAME, {"spec": {"unschedulable": True}}), "cordoned: True"),
        (lambda w: w.admin.patch(NODE, NODE_NAME, metadata("annotations", **{PAUSED: "{}"})), "record of ours"),
        (
            lambda w: w.admin.patch(NODE, NODE_NAME, metadata("labels", **{PLUGIN_GATE: "paused-for-mig-manager"})),
            "left paused",
        ),
        (
            lambda w: w.admin.patch(NODE, NODE_NAME, {"spec": {"taints": [{"key": "migmanager.io/repartitioning"}]}}),
            "our taint",
        ),
    ],
    ids=["cordon", "record", "pause", "taint"],
)
def test_something_left(world: Make, leave: Callable[[World], object], said: str) -> None:
    """At the end neither cordon, record, pause nor taint of ours is on the node."""
    w = world(A100)
    w.assert_clean()
    leave(w)
    with pytest.raises(AssertionError, match=said):
        w.assert_clean()


def test_value_not_restored(world: Make) -> None:
    """A gate that has another value in the end than the Node was registered with is a pause that leaked."""
    w = world(A100)
    w.assert_as_registered()
    w.admin.patch(NODE, NODE_NAME, metadata("labels", **{PLUGIN_GATE: "false"}))
    with pytest.raises(AssertionError, match="labels of others"):
        w.assert_as_registered()
