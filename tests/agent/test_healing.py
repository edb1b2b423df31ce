"""Cards in states that no layout asks for: what is recognised there, healed without harm, or reported."""

from __future__ import annotations

from mig_manager.agent.results import Wait
from tests.agent.layouts import every
from tests.agent.moments import at, said
from tests.agent.stories import CUT, Make, granted
from tests.agent.worlds import A100, World

THERE = "1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"


def without_compute(w: World, start: int) -> None:
    """Somebody has destroyed the compute instance of the slice that begins there."""
    instance = next(i for i in w.machine.card(0).instances if i.start == start)
    w.machine.remove_compute_instance(0, instance.id, instance.compute[0].id)


def births(w: World) -> dict[int, int]:
    """By where it lies, when each GPU instance was made."""
    return {i.start: i.generation for i in w.machine.card(0).instances}


def test_instance_without_compute_is_seen_and_healed(world: Make) -> None:
    """It is no device that anybody could use; it gets its compute instance back and is itself kept."""
    w = world(A100, cut=(("3g", 4), ("1g", 0)))
    without_compute(w, 4)
    w.tick()
    w.want(every("1g", "3g"))
    w.run_pass()
    plan = w.status["plan"]
    assert ("None", 2, 1, 0) == (plan["impact"], plan["keep"], plan["create"], plan["destroy"])
    assert ["1g.10gb@0", "3g.40gb@4[]"] == w.status["gpus"][0]["slices"]
    before = births(w)
    w.grant(maxImpact="None")
    assert "release: Done" == w.settle()[-1]
    assert before == births(w)
    assert ["1g.10gb@0", "3g.40gb@4"] == w.status["gpus"][0]["slices"]


def test_instance_that_loses_its_compute_later_is_repaired(world: Make) -> None:
    """A promised slice that nobody can use any more counts as missing, and is repaired under the standing grant."""
    w = granted(world)
    w.settle()
    without_compute(w, 4)
    w.tick()
    before = births(w)
    w.settle()
    assert before == births(w)
    assert ("True", "Ready") == w.ready
    assert "1" == w.labels["mig-3g.40gb"]


def test_instance_that_somebody_makes_in_between(world: Make) -> None:
    """Between plan and record somebody fills the gap: that was not planned, so it is refused, and planned anew."""
    w = granted(world)
    ending = at(w, "journal begin", lambda w: w.machine.add_instance(0, "1g+me", start=1))
    assert isinstance(ending.result, Wait)
    assert "1g.10gb+me@1" in w.shape()[0]
    w.clock.sleep(60)
    w.control()
    assert "release: Done" == w.settle()[-1]
    assert [THERE] == w.shape()
    w.assert_clean()


def test_instance_that_somebody_makes_after_the_record(world: Make) -> None:
    """It is not destroyed by a plan that did not know of it: the change is refused or taken back, and tried again."""
    w = granted(world)
    made: list[int] = []

    def make(w: World) -> None:
        made.append(w.machine.add_instance(0, "1g+me", start=1).generation)

    ending = at(w, "journal begun", make)
    assert "apply" == said(ending).partition(":")[0]
    assert made[0] in births(w).values()
    w.clock.sleep(60)
    w.settle(30, control=True, seconds=20)
    assert [THERE] == w.shape()
    assert ("True", "Ready") == w.ready
    w.assert_clean()


def test_card_that_somebody_emptied_in_mid_change(world: Make) -> None:
    """Half destroyed by us and the rest by hand: what is left is built up to the layout."""
    w = granted(world)

    def wipe(w: World) -> None:
        for start in [i.start for i in w.machine.card(0).instances]:
            w.machine.remove_instance(0, start=start)

    at(w, "nvmlGpuInstanceDestroy done", wipe)
    w.clock.sleep(60)
    w.settle(30, control=True, seconds=20)
    assert [THERE] == w.shape()
    assert ("True", "Ready") == w.ready
    assert len(CUT) == 3
    w.assert_clean()
