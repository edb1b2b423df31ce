"""A person who cordons and uncordons while the node is being worked on."""

from __future__ import annotations

from tests.e2e import moments
from tests.e2e.layouts import NARROW, PROFILES, WIDE
from tests.e2e.world import World


def test_work_on_a_node_that_a_person_has_cordoned(world: World) -> None:
    """It is unavailable anyway, so it costs no slot; the person's cordon stays until the person lifts it."""
    host, other = (world.host("A100-SXM4-80GB", slices=[WIDE]) for _ in range(2))
    world.config("wide", profiles=PROFILES)
    for one in (host, other):
        world.finished(one, WIDE, "wide")

    world.cordon(host)
    world.edit(profile="narrow")
    world.finished(host, NARROW, "narrow")
    assert world.node(host)["spec"]["unschedulable"]
    assert not world.mignode(host)["spec"]["grant"]["slot"]
    world.cordon(host, on=False)
    world.finished(other, NARROW, "narrow")
    world.ready()


def test_person_uncordons_when_the_cards_are_done(world: World) -> None:
    """The change is brought to its end; nobody's cordon is left, and no note of one."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    resumed = host.agent.hold(moments.resumes, after=False)
    world.edit(profile="narrow")
    resumed.wait()
    world.cordon(host, on=False)
    resumed.open()
    world.finished(host, NARROW, "narrow")
    assert not world.node(host)["spec"].get("unschedulable")


def test_person_uncordons_and_cordons_before_anything_is_destroyed(world: World) -> None:
    """From then on it is the person's cordon: the work goes on under it, and it is left when all is done."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    paused = host.agent.hold(moments.pauses, after=True)
    world.edit(profile="narrow")
    paused.wait()
    world.cordon(host, on=False)
    world.cordon(host)
    paused.open()
    world.finished(host, NARROW, "narrow")
    assert world.node(host)["spec"]["unschedulable"]
    world.cordon(host, on=False)
    world.ready()
