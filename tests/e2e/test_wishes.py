"""What people write into MIGConfigs and on Nodes, and what becomes of it."""

from __future__ import annotations

from mig_manager.kube.errors import NotFoundError
from tests.e2e import moments
from tests.e2e.hosts import Host
from tests.e2e.layouts import NARROW, PROFILES, SEVEN, WIDE
from tests.e2e.world import World


def has_mignode(world: World, host: Host) -> bool:
    try:
        world.mignode(host)
    except NotFoundError:
        return False
    return True


def test_profile_by_label(world: World) -> None:
    """A node's label selects its profile: set, changed, unknown (that node alone is blocked, as it is), removed."""
    host, other = (world.host("A100-SXM4-80GB", slices=[WIDE]) for _ in range(2))
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    world.label(host, _profile="narrow")
    world.finished(host, NARROW, "narrow")
    world.label(host, _profile="all-1g.10gb")
    world.finished(host, SEVEN, "all-1g.10gb")
    world.label(host, _profile="no-such-profile")
    world.until("the node to be blocked", lambda: world.reason(host) == "UnknownProfile")
    world.until("the pool to say so", lambda: world.pool_reason() == "UnknownProfile")
    assert SEVEN == host.counts()
    world.edit(profile="narrow")
    world.finished(other, NARROW, "narrow")
    world.label(host, _profile=None)
    world.finished(host, NARROW, "narrow")
    world.ready()


def test_edited_twice_in_mid_flight(world: World) -> None:
    """What was granted and has not begun is given up for what is wanted by now, without letting the node in between."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    paused = host.agent.hold(moments.pauses, after=False)
    world.edit(profile="narrow")
    paused.wait()
    generation = host.machine.read().generation
    world.edit(profile="all-2g.20gb")
    world.until("that to be wished", lambda: world.mignode(host)["spec"]["desired"]["profile"] == "all-2g.20gb")
    world.edit(profile="all-1g.10gb")
    world.until("that to be granted", lambda: world.mignode(host)["spec"]["grant"]["profile"] == "all-1g.10gb")
    paused.open()

    world.finished(host, SEVEN, "all-1g.10gb")
    # Seven GPU instances and seven compute instances were created, and nothing else before them.
    assert generation + 14 == host.machine.read().generation


def test_deleted_in_mid_flight(world: World) -> None:
    """The cards keep their layout, our labels go, the MIGNode goes, and the node is let in."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")

    paused = host.agent.hold(moments.pauses, after=False)
    world.edit(profile="narrow")
    paused.wait()
    world.plane.kubectl("delete", "migconfig", world.name)
    paused.open()

    world.until("the MIGNode to be gone", lambda: not has_mignode(world, host))
    world.until("our labels to be gone", lambda: not world.labels(host))
    assert not world.node(host)["spec"].get("unschedulable")
    world.until("the slices to be offered", lambda: world.offered(host) == {"mig-3g.40gb": 2})
    assert WIDE == host.counts()


def test_two_configs_claim_one_node(world: World) -> None:
    """It is left alone by both, and each says so; when one is gone, the other takes over."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    second = world.config("narrow", name=f"{world.name}-b", profiles=PROFILES)
    both = (world.name, second)
    world.until("both to say so", lambda: {"ConflictingConfigs"} == {world.pool_reason(name) for name in both})
    assert WIDE == host.counts()

    world.plane.kubectl("delete", "migconfig", world.name)
    world.finished(host, NARROW, "narrow")
    world.ready(second)
