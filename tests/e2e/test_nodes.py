"""Nodes that come, go, come again, are rebooted, and are not what they were."""

from __future__ import annotations

from mig_manager.agent.names import STARTUP_TAINT
from tests.e2e.hosts import CREATE
from tests.e2e.layouts import NARROW, PROFILES, WIDE
from tests.e2e.test_wishes import has_mignode
from tests.e2e.world import World

BALANCED = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}
BALANCED_A30 = {"2g.12gb": 1, "1g.6gb": 2}


def test_node_added_deleted_and_created_again_with_other_cards(world: World) -> None:
    """A node that joins gets its layout; one that is gone is forgotten; under its old name it is a new node."""
    world.config("all-balanced")
    world.until("an empty pool", lambda: world.pool_reason() == "NoNodes")
    host = world.host("A100-SXM4-80GB")
    world.finished(host, BALANCED, "all-balanced")

    host.simulated.remove()
    host.agent.kill()
    world.until("the MIGNode to be gone", lambda: not has_mignode(world, host))
    world.until("an empty pool", lambda: world.pool_reason() == "NoNodes")

    host = world.replace(host, "A30*2")
    world.finished(host, {name: 2 * count for name, count in BALANCED_A30.items()}, "all-balanced")
    world.ready()


def test_node_created_again_in_the_middle_of_an_apply(world: World) -> None:
    """Cordon and pauses are gone with the old Node, the record on the host is not: what was begun is finished."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    in_call = host.in_call(CREATE, 2)
    world.edit(profile="narrow")
    world.until("the agent to create slices", in_call)
    host.agent.kill()
    host.simulated.recreate()
    world.start_agent(host)
    world.finished(host, NARROW, "narrow")


def test_hopper_rebooted(world: World) -> None:
    """A Hopper card loses mode and slices at a reboot; the agent repairs it, without a controller."""
    host = world.host("H100-SXM5-80GB*2")
    world.config("all-balanced")
    layout = {"3g.40gb": 2, "2g.20gb": 2, "1g.10gb": 4}
    world.finished(host, layout, "all-balanced")

    world.kill_controller()
    host.agent.kill()
    host.simulated.reboot()
    assert {} == host.counts()
    assert not any(card.mig_current for card in host.machine.read().cards)
    world.start_agent(host)
    world.finished(host, layout, "all-balanced")


def test_slices_changed_by_hand_while_the_controller_is_away(world: World) -> None:
    """The labels are taken back, the layout is repaired under the standing grant, and who runs stays."""
    host = world.host("A100-SXM4-80GB*2", slices=[NARROW, NARROW])
    world.config("narrow", profiles=PROFILES)
    layout = {name: 2 * count for name, count in NARROW.items()}
    world.finished(host, layout, "narrow")
    world.running(world.pod("p0", host, "mig-3g.40gb"), world.pod("p1", host, "mig-3g.40gb"))
    world.observer.evicted = set()

    world.kill_controller()
    for _ in range(3):
        small = next(i for i in host.machine.card(0).instances if i.size == 1)
        for client in host.machine.card(0).clients_of(small.id):
            host.machine.free(0, pid=client.pid)
        host.machine.remove_instance(0, start=small.start)
    world.until("the slices to be there again", lambda: host.counts() == layout)
    world.finished(host, layout, "narrow")


def test_equal_counts_at_other_places(world: World) -> None:
    """A layout is what is there, not where: nothing is moved, and nobody is disturbed."""
    host = world.host("A100-SXM4-80GB")
    host.machine.add_instance(0, "3g.40gb", start=0)
    for start in (6, 4, 5):
        host.machine.add_instance(0, "1g.10gb", start=start)
    world.config("narrow", profiles=PROFILES)
    generation = host.machine.read().generation
    world.until("the grant", lambda: world.status(host).get("grant", {}).get("result") == "Applied")
    assert generation == host.machine.read().generation
    assert 0 == world.observer.most_out()


def test_node_registered_with_the_startup_taint(world: World) -> None:
    """Pods are kept away until the layout is there for the first time."""
    taint = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
    host = world.host("A100-SXM4-80GB", taints=[taint], agent=False)
    world.config("all-balanced")
    pod = world.pod("eager", host, "mig-1g.10gb")
    world.start_agent(host)
    world.finished(host, BALANCED, "all-balanced")
    assert STARTUP_TAINT not in str(world.node(host)["spec"].get("taints"))
    world.running(pod)
