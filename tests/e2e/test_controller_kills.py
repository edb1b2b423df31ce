"""The controller's process is killed, and started again: no node is taken out beside another, and the pool gets there.

Its Lease is freed by hand, as nobody who watches wants to wait until it runs out; ``test_controllers.py`` does once.
"""

from __future__ import annotations

from tests.e2e import moments
from tests.e2e.hosts import CREATE, Host
from tests.e2e.layouts import NARROW, PROFILES, WIDE
from tests.e2e.world import World


def held(world: World) -> list[Host]:
    """The nodes that are being worked on."""
    return [h for h in world.hosts.values() if world.status(h).get("grant", {}).get("state") == "Held"]


def test_controller_killed_five_times(world: World) -> None:
    """After the Lease, a wish, a grant; while a node is at work; and on pause."""
    hosts = [world.host("A100-SXM4-80GB", slices=[WIDE]) for _ in range(3)]
    controller = world.controller
    world.config("wide", profiles=PROFILES)
    for host in hosts:
        world.finished(host, WIDE, "wide")

    wished = controller.hold(moments.wishes, after=True)
    world.edit(profile="narrow")
    wished.wait()
    world.kill_controller()

    leads = controller.hold(moments.leads, after=True)
    controller.start()
    leads.wait()
    world.kill_controller()

    granted = controller.hold(moments.grants, after=True)
    controller.start()
    granted.wait()
    world.kill_controller()

    paused = {host.name: host.agent.hold(moments.pauses, after=False) for host in hosts}
    controller.start()
    world.until("a node to be at work", lambda: any(gate.reached.is_set() for gate in paused.values()))
    (first,) = held(world)
    world.kill_controller()
    paused.pop(first.name).open()
    # It needs nobody to finish what it was granted, and nobody else begins.
    world.finished(first, NARROW, "narrow")
    assert [] == held(world)

    controller.start()
    world.until("the next node to be at work", lambda: any(gate.reached.is_set() for gate in paused.values()))
    (second,) = held(world)
    revoked = controller.hold(moments.revokes, after=True)
    world.edit(paused=True)
    revoked.wait()
    world.kill_controller()
    paused.pop(second.name).open()
    world.until("the node to be let in", lambda: world.status(second)["grant"]["state"] == "Released")
    assert WIDE == second.counts()

    (last,) = paused.values()
    last.open()
    world.edit(paused=False)
    controller.start()
    for host in hosts:
        world.finished(host, NARROW, "narrow")
    world.ready()
    assert 1 == world.observer.most_out()


def test_everybody_killed_at_once(world: World) -> None:
    """Controller and agent die together, one in the middle of an apply: the agent repairs first, then all goes on."""
    first, second = (world.host("A100-SXM4-80GB", slices=[WIDE]) for _ in range(2))
    world.config("wide", profiles=PROFILES)
    for host in (first, second):
        world.finished(host, WIDE, "wide")

    calls = {host.name: host.in_call(CREATE, 2) for host in (first, second)}
    world.edit(profile="narrow")
    world.until("a node to be half empty", lambda: any(in_call() for in_call in calls.values()))
    for host in (first, second):
        host.no_more_calls()
        host.agent.kill()
    world.kill_controller()

    for host in (first, second):
        host.agent.start()
    begun = next(host for host in (first, second) if host.counts() != WIDE)
    world.finished(begun, NARROW, "narrow")
    world.controller.start()
    for host in (first, second):
        world.finished(host, NARROW, "narrow")
    world.ready()
    assert 1 == world.observer.most_out()
