"""A node whose clock was wrong once is held neither off nor closed by what was written then."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mig_manager.agent.context import Memory
from mig_manager.api.rest import LONGEST_REST_S, rest_s
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.clock import START
from tests.agent.moments import ready_message
from tests.agent.stories import CREATE, GOING, Make, advance, failed, granted, guard
from tests.agent.worlds import World

YEAR_S = 365 * 86400.0


def set_clock(w: World, seconds: float) -> None:
    """The node's clock is set forward or back."""
    w.clock.time += timedelta(seconds=seconds)


def guarded(make: Make) -> World:
    """A node that waits for a pod whose budget is used up, under a grant that waits for five minutes."""
    w = granted(make, drain={"timeoutSeconds": 300})
    guard(w)
    return w


def test_repair_is_not_held_off_until_a_clock_comes_true(world: Make) -> None:
    """A change fails while the node's clock is a year ahead: the repair starts when the clock is right."""
    w = granted(world)
    set_clock(w, YEAR_S)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    w.settle(2)
    assert "Failed" == w.grant_status["result"]
    set_clock(w, -YEAR_S)
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_repair_rests_as_long_as_was_asked_for(world: Make) -> None:
    """By a clock that is right nothing is tried before."""
    w = failed(world)
    w.machine.clear_faults()
    assert ["take_up: RollbackFailed"] * 5 == w.settle(5)


def test_people_are_told_that_a_clock_was_wrong(world: Make) -> None:
    """An attempt that is given up asks for time; when that is a year away, the message says that it does not count."""
    w = guarded(world)
    w.settle(4)
    set_clock(w, YEAR_S)
    assert "stand_down: DrainTimeout" == w.settle(1)[-1]
    w.run_pass()
    assert "tried again after" in ready_message(w)
    set_clock(w, -YEAR_S)
    w.run_pass()
    assert "is farther ahead than any attempt rests and counts as not set" in ready_message(w)
    w.kube.patch(MIG_NODE, "n1", {"status": {"grant": {"notBefore": None}}}, subresource="status")
    w.run_pass()
    assert "notBefore" not in ready_message(w)


def test_hold_that_begins_in_the_future_ends(world: Make) -> None:
    """Taken up when the clock was a year ahead, the node is not closed for that year."""
    w = guarded(world)
    set_clock(w, YEAR_S)
    advance(w, "drain")
    set_clock(w, -YEAR_S)
    assert "stand_down: DrainTimeout" == w.settle(1)[-1]
    w.assert_clean()


def test_hold_survives_a_clock_that_is_set_back_a_little(world: Make) -> None:
    """A few seconds, as at the first answer of a time server, are no reason to give up."""
    w = guarded(world)
    advance(w, "drain")
    set_clock(w, -60)
    assert ["drain: EvictionBlocked"] == w.settle(1)


@pytest.mark.parametrize("back_s", [1.0, YEAR_S])
def test_waiting_starts_anew_when_the_clock_is_set_back(back_s: float) -> None:
    """What is waited for is never waited for in the future."""
    memory, later = Memory(), START + timedelta(seconds=YEAR_S)
    memory.waited_s("advertised 1", later)
    set_back = later - timedelta(seconds=back_s)
    assert 0 == memory.waited_s("advertised 1", set_back)
    assert 5 == memory.waited_s("advertised 1", set_back + timedelta(seconds=5))


def by_the_servers_clock(make: Make, behind_s: float) -> World:
    """A node under a grant whose own clock differs from the API server's, and which knows the server's."""
    w = granted(make, drain={"timeoutSeconds": 60})
    w.store.now = lambda: w.clock.now() - timedelta(seconds=behind_s)
    return w


@pytest.mark.parametrize("behind_s", [-3600.0, 0.0, 3600.0])
def test_pod_that_comes_to_a_closed_node_is_evicted_once(world: Make, behind_s: float) -> None:
    """It tolerates the cordon and comes again at once: that it came after the cordon is judged by one clock."""
    w = by_the_servers_clock(world, behind_s)
    anywhere = [{"operator": "Exists"}]
    w.pod("goes", GOING, tolerations=anywhere)
    evicted = 0
    for _ in range(10):
        w.run_pass()
        w.tick(3)
        if "default/goes" in w.deleted:
            evicted += 1
            w.deleted.clear()
            w.pod("goes", GOING, tolerations=anywhere)
    assert 1 == evicted
    assert "came to the cordoned node and would come again" in ready_message(w)


def test_pod_from_before_the_cordon_did_not_come_to_it(world: Make) -> None:
    """A node whose clock is an hour behind takes nobody for a pod that came past its cordon."""
    w = by_the_servers_clock(world, -3600.0)
    w.pod("goes", GOING)
    w.tick(600)
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize("behind_s", [-3600.0, 7 * 3600.0])
def test_rest_is_said_by_the_servers_clock(world: Make, behind_s: float) -> None:
    """The controller reads how long the node wants to be left alone, whatever the node's clock says."""
    w = by_the_servers_clock(world, behind_s)
    guard(w)
    w.settle(40, seconds=3)
    not_before = datetime.fromisoformat(w.grant_status["notBefore"])
    assert 0 < rest_s(not_before, 60, w.store.now()) <= LONGEST_REST_S
