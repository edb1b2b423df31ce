"""A node whose clock was wrong once is held neither off nor closed by what was written then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mig_manager.agent.context import Memory
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.clock import START
from tests.agent.moments import ready_message
from tests.agent.stories import CREATE, Make, advance, failed, granted, guard
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
