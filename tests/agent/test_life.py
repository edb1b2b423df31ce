"""The life of a repartition from beginning to end: what is written, in which order, and what is left alone."""

from __future__ import annotations

from datetime import datetime

from mig_manager.agent.names import PAUSED
from mig_manager.kube.kinds import EVENT, MIG_NODE, NODE
from tests.agent.layouts import every
from tests.agent.stories import CUT, GOING, GUARDED, TARGET, Make, advance, applied, granted
from tests.agent.worlds import A100


def test_plan_is_published_before_anything(world: Make) -> None:
    """Without a grant the plan stands in status, and the node is untouched."""
    w = world(A100, cut=CUT)
    w.pod("busy", GOING)
    w.want(TARGET)
    before = w.node
    w.settle(3)
    plan = w.status["plan"]
    assert ("EvictPods", 2, 2, 1, ["default/busy"]) == (
        plan["impact"],
        plan["keep"],
        plan["create"],
        plan["destroy"],
        plan["evict"],
    )
    assert before["spec"] == w.node["spec"]
    assert ("False", "WaitingForTurn") == w.ready
    assert "nvmlGpuInstanceDestroy" not in w.process.names


def test_whole_life(world: Make) -> None:
    """With a slot: cordoned, drained of what is in the way, paused, cut, resumed, advertised, labelled, open again."""
    w = granted(world)
    w.pod("keeps", "nvidia.com/mig-3g.40gb")
    w.pod("goes", GOING)
    assert [
        "drain: Draining",
        "pause_clients: PausingClients",
        "await_advertised: AwaitingAdvertised",
        "release: Done",
    ] == w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert ["default/goes"] == w.deleted
    assert {
        "state": "ready",
        "config": "pool",
        "applied-profile": "p",
        "gpu-model": A100,
        "mig.capable": "true",
        "mig-1g.10gb": "3",
        "mig-3g.40gb": "1",
    } == w.labels
    assert {"id": 1, "state": "Released", "result": "Applied"} == w.grant_status
    assert ("True", "Ready") == w.ready
    assert {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1} == w.status["resources"]
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


def test_held_before_cordon_and_released_last(world: Make) -> None:
    """The order of writes: Held, cordon, pause, resume, uncordon, Released."""
    w = granted(world)
    w.settle()
    seen: list[str] = []
    node = mignode = ""
    for version in w.store.history_since(0):
        body = version.body or {}
        if version.key[0] == MIG_NODE:
            state = str((body.get("status") or {}).get("grant", {}).get("state", ""))
            if state != mignode:
                seen.append(state)
            mignode = state
        if version.key[0] == NODE:
            paused = PAUSED in (body["metadata"].get("annotations") or {})
            now = ("cordoned" if body["spec"].get("unschedulable") else "open") + (" paused" if paused else "")
            if now != node:
                seen.append(now)
            node = now
    assert ["open", "Held", "cordoned", "cordoned paused", "cordoned", "open", "Released"] == seen


def test_second_pass_writes_nothing(world: Make) -> None:
    """When all is as wanted a pass writes nothing at all."""
    w = applied(world)
    w.run_pass()
    w.tick()
    before = w.store.resource_version
    assert "Done" == type(w.run_pass().result).__name__
    assert before == w.store.resource_version


def test_busy_slices_that_both_want_stay(world: Make) -> None:
    """A slice in use that the target also wants is not even rebuilt."""
    w = granted(world)
    w.pod("keeps", "nvidia.com/mig-1g.10gb")
    birth = w.running["default/keeps"].birth
    w.settle()
    assert birth in {b for *_, b in w.slices()}
    assert "default/keeps" in w.running


def test_budget_blocks_and_nobody_is_evicted(world: Make) -> None:
    """While one pod's budget refuses, nobody is evicted; past the drain's time everything is as it was."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"))
    w.run_pass()
    w.grant(drain={"timeoutSeconds": 60, "onTimeout": "Abort"})
    w.pod("a", GOING, labels=GUARDED)
    w.pod("b", GOING)
    w.budget(GUARDED)
    before = w.shape()
    ended = w.settle(30, seconds=5)
    assert "drain: EvictionBlocked" in ended
    assert "stand_down: DrainTimeout" in ended
    assert [] == w.deleted
    assert before == w.shape()
    state = w.grant_status
    assert ("Released", "Aborted", "DrainTimeout", 1) == (
        state["state"],
        state["result"],
        state["reason"],
        state["attempts"],
    )
    assert "disruption budget pdb" in state["message"]
    w.assert_clean()


def test_distance_between_attempts_grows(world: Make) -> None:
    """Every attempt that comes to nothing doubles the time to the next; the same id evicts nobody again."""
    w = world(A100, cut=(("2g", 0),))
    w.want(every("1g*7"))
    w.pod("a", GOING, labels=GUARDED)
    w.budget(GUARDED)
    distances = []
    for _ in range(3):
        w.run_pass()
        w.grant(drain={"timeoutSeconds": 5, "onTimeout": "Abort"})
        w.settle(8, seconds=2)
        state = w.grant_status
        assert "Released" == state["state"]
        distances.append(state["attempts"])
    assert [1, 2, 3] == distances
    rest = datetime.fromisoformat(w.grant_status["notBefore"]) - w.clock.now()
    assert 90 < rest.total_seconds() <= 120


def test_events_tell_the_story_once(world: Make) -> None:
    """One Event per transition, on Node and MIGNode, and none for a pass that changes nothing."""
    w = granted(world)
    w.settle()
    w.settle(3)
    told = sorted((e["involvedObject"]["kind"], e["reason"], e["count"]) for e in w.admin.list(EVENT).items)
    assert [
        ("MIGNode", "RepartitionStarted", 1),
        ("MIGNode", "Repartitioned", 1),
        ("Node", "RepartitionStarted", 1),
        ("Node", "Repartitioned", 1),
    ] == told


def test_not_advertised_in_time(world: Make) -> None:
    """Past the deadline the healthy rest is let go, the node counts as Degraded, and nothing is done again."""
    w = granted(world)
    advance(w, "await_advertised")
    w.offered = {}
    w.plays_daemon_set = lambda: None
    ended = w.settle(40, seconds=20)
    assert "release: NotAdvertised" in ended
    assert ("True", "NotAdvertised") == w.condition("Degraded")
    assert {"id": 1, "state": "Released", "result": "Applied"} == w.grant_status
    assert "mig-1g.10gb" not in w.labels
    w.assert_clean()
