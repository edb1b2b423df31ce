"""The grant is revoked, replaced or gone while work is going on."""

from __future__ import annotations

import pytest

from mig_manager.kube.kinds import MIG_NODE, NODE
from tests.agent.layouts import every
from tests.agent.stories import GOING, Make, advance, blocked, granted, versions
from tests.agent.worlds import World

STAGES = ("drain", "pause_clients", "await_advertised")


def at(make: Make, stage: str) -> World:
    """A node that is granted, with a pod on a slice that has to go, and has come to that step."""
    w = granted(make)
    w.pod("goes", GOING)
    advance(w, stage)
    return w


@pytest.mark.parametrize("stage", STAGES)
def test_grant_revoked(world: Make, stage: str) -> None:
    """Before the first destroy the node is left as it was, after it the work is finished; then Released."""
    w = granted(world)
    w.pod("goes", GOING)
    before = w.shape()
    advance(w, stage)
    w.revoke()
    w.settle(10)
    done = stage == "await_advertised"
    assert (before if not done else ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"]) == w.shape()
    assert ("Released", "Applied" if done else "Aborted") == (w.grant_status["state"], w.grant_status["result"])
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


@pytest.mark.parametrize("stage", STAGES)
def test_grant_replaced(world: Make, stage: str) -> None:
    """The new id is taken up with cordon and pauses kept; nobody sees the node open in between."""
    w = at(world, stage)
    w.want(every("1g*2", "2g", "3g"), profile="q")
    w.grant()
    start = w.store.resource_version
    assert "release: Done" == w.settle()[-1]
    assert 2 == w.grant_status["id"]
    assert "q" == w.labels["applied-profile"]
    assert ["1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"] == sorted(w.shape())
    schedulable = [not v["spec"].get("unschedulable") for v in versions(w, start, NODE)]
    held = [v["status"]["grant"]["state"] == "Held" for v in versions(w, start, MIG_NODE)]
    # Once open, it stays open: the cordon was not lifted between the two grants.
    assert sorted(schedulable) == schedulable
    assert sorted(held, reverse=True) == held
    w.assert_clean()


@pytest.mark.parametrize("stage", STAGES)
def test_node_leaves_its_pool(world: Make, stage: str) -> None:
    """The MIGConfig is deleted in mid-flight: nothing of ours stays, labels go, and the answer comes last."""
    w = at(world, stage)
    w.leave_pool()
    w.settle(10)
    assert {} == w.labels
    assert "Released" == w.grant_status["state"]
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


def test_replaced_by_nothing_to_do(world: Make) -> None:
    """The layout that is there is wanted again: the hold ends under the new id, Applied."""
    w = blocked(world)
    w.want(every("1g", "2g", "3g"), profile="old")
    w.grant()
    w.settle()
    assert {"id": 2, "state": "Released", "result": "Applied"} == w.grant_status
    assert [] == w.deleted
    w.assert_clean()


def test_held_is_not_turned_into_repairing(world: Make) -> None:
    """A Held node that gets a grant without a slot first has nothing of ours, then starts afresh."""
    w = at(world, "drain")
    w.grant(slot=False)
    assert "stand_down: GrantReplaced" == w.settle(1)[-1]
    assert (1, "Released") == (w.grant_status["id"], w.grant_status["state"])
    w.assert_clean()


def test_mignode_is_gone(world: Make) -> None:
    """Without a MIGNode nothing of ours stays on the node."""
    w = at(world, "drain")
    w.admin.delete(MIG_NODE, "n1")
    w.settle(3)
    assert {} == w.labels
    w.assert_clean()


def test_new_grant_that_cannot_be_taken_up_while_held(world: Make) -> None:
    """A node that is held while the next grant meets somebody whom no drain can move is given back at once."""
    w = blocked(world)
    w.machine.hold(0, start=0, pid=4_190_000)
    w.want(every("2g", "3g", "1g+me"), profile="q")
    w.grant()
    assert ["stand_down: InUse", "take_up: InUse"] == w.settle(2)
    assert ("Released", 1) == (w.grant_status["state"], w.grant_status["id"])
    w.assert_clean()


def test_new_grant_that_is_refused_while_held(world: Make) -> None:
    """A node that is held while the next grant cannot be taken up is given back when the drain's time is over."""
    w = blocked(world)
    w.want(every("2g", "3g", "1g+me"), profile="q")
    w.grant(maxImpact="None", drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    ended = w.settle(20, seconds=5)
    assert "take_up: ImpactNotAllowed" == ended[0]
    assert "stand_down: DrainTimeout" in ended
    assert ("Released", 1) == (w.grant_status["state"], w.grant_status["id"])
    assert "take_up: ImpactNotAllowed" == ended[-1]
    w.assert_clean()
