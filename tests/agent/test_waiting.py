"""What a node says for itself while nothing is done there: whoever looks at it first need not look anywhere else."""

from __future__ import annotations

import pytest

from mig_manager.kube.kinds import MIG_NODE
from tests.agent.layouts import every
from tests.agent.moments import ready_message
from tests.agent.stories import GOING, Make
from tests.agent.worlds import A100, NODE_NAME, World

CUT = (("2g.20gb", 0), ("3g.40gb", 4))


def waiting(make: Make, **said: object) -> World:
    """A node with a pod on a slice that is not wanted; ``said`` stands in what is desired."""
    w = make(A100, cut=CUT)
    w.pod("busy", GOING)
    w.want(every("3g", "3g"))
    if said:
        w.admin.patch(MIG_NODE, NODE_NAME, {"spec": {"desired": said}})
    w.settle(2)
    return w


def test_it_waits_for_its_turn(world: Make) -> None:
    """It is at no step; reason and message say what it waits for, and who decides that."""
    w = waiting(world)
    assert ("False", "WaitingForTurn") == w.ready
    assert "waiting for its turn: MIGConfig pool lets only so many nodes be out" in ready_message(w)
    assert "" == w.status["step"]


def test_its_turn_was_taken_back(world: Make) -> None:
    """A grant that was revoked is said, and it waits again."""
    w = waiting(world)
    w.grant()
    w.revoke()
    w.settle(2)
    assert ready_message(w).endswith("; the last turn was taken back")


def test_its_pool_is_paused(world: Make) -> None:
    """The node says so, and what to do; its plan is there all the same."""
    w = waiting(world, paused=True)
    assert ("False", "Paused") == w.ready
    assert "MIGConfig pool is paused; set its spec.paused to false to let it begin" == ready_message(w)
    assert ("", "EvictPods") == (w.status["step"], w.status["plan"]["impact"])


def test_a_pause_is_no_news_where_nothing_is_to_be_done(world: Make) -> None:
    """A node that has its layout is Ready, paused or not."""
    w = waiting(world, paused=True)
    w.want(every("2g", "3g"))
    w.settle(2)
    assert ("True", "Ready") == w.ready


@pytest.mark.parametrize("limit", ["None", "FreeSlices"])
def test_its_pool_allows_too_little(world: Make, limit: str) -> None:
    """What it would take and what is allowed stand on the node, before there is a grant, and in its plan."""
    w = waiting(world, maxImpact=limit, paused=True)
    words = f"it takes EvictPods, and maxImpact is {limit}"
    assert ("False", "ImpactNotAllowed") == w.ready
    assert words == ready_message(w)
    plan = w.status["plan"]
    assert ("EvictPods", "ImpactNotAllowed", words) == (plan["impact"], plan["reason"], plan["message"])
    w.end("busy")
    w.settle(2)
    assert ("ImpactNotAllowed" if limit == "None" else "Paused") == w.ready[1]


def test_enough_is_allowed(world: Make) -> None:
    """What stays within the limit is in nobody's way."""
    w = waiting(world, maxImpact="EvictPods")
    assert ("False", "WaitingForTurn") == w.ready
    assert "reason" not in w.status["plan"]


def test_a_layout_that_cannot_be_is_not_judged_by_its_impact(world: Make) -> None:
    """There is none."""
    w = waiting(world, maxImpact="None")
    w.want(every("3g", "3g", "3g"))
    w.settle(2)
    assert ("False", "LayoutDoesNotFit") == w.ready
