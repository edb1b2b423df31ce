"""The agent's process is killed, and started again: whatever it was doing, all promises hold and the pool gets there.

Every kill is at an exact place: a request that is held at the API server's door or after it was carried out, or a call
of the driver that does not return. Many kills in one change, so that recovering is interrupted as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.gpu.journal import Journal
from mig_manager.kube.kinds import MIG_NODE
from tests.chaos.counting import ALL, Matrix, must
from tests.e2e import moments
from tests.e2e.hosts import CREATE, Host
from tests.e2e.layouts import NARROW, PROFILES, WIDE, both
from tests.e2e.proxy import Gate
from tests.e2e.world import World


def start(world: World) -> Host:
    """Three pods on the four slices of a node, and a budget that lets one of them go."""
    host = world.host("A100-SXM4-80GB*2", slices=[WIDE, WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, both(WIDE), "wide")
    world.running(*(world.pod(f"p{n}", host, "mig-3g.40gb") for n in range(3)))
    world.budget(2)
    return host


def converged(world: World, host: Host) -> None:
    """All is as if nothing had happened: one pod was evicted, and two never noticed."""
    world.finished(host, both(NARROW), "narrow")
    world.ready()
    assert ["Gone", "Running", "Running"] == sorted(world.phase(f"{world.name}-p{n}") for n in range(3))


@dataclass(frozen=True)
class Story:
    """A change in which the agent dies again and again. It is not running when ``begin`` is over.

    ``done`` says that all is as wanted, ``acts`` are what the agent must have died at, as signatures have it.
    """

    name: str
    begin: Callable[[World], Host]
    done: Callable[[World, Host], bool]
    acts: tuple[str, ...]
    end: Callable[[World, Host], None] = lambda _, __: None


ALL_ACTS = ("Held", "unschedulable+", f"{PAUSED}+", f"{PAUSED}-", f"{CORDONED}-", "Released")
EVICTIONS = ("eviction on trial", "eviction for good")


def recut(world: World) -> Host:
    """A busy node that is to be cut anew."""
    host = start(world)
    host.agent.kill()
    world.edit(profile="narrow")
    return host


def recut_done(world: World, host: Host) -> bool:
    """It is."""
    return world.has(host, both(NARROW), "narrow")


def switched_on(world: World) -> Host:
    """A Hopper card without MIG, whole in use, in a pool that wants slices."""
    host = world.host("H100-PCIE-80GB", mig=False, agent=False)
    world.until("the card to be offered", lambda: world.offered(host) == {"gpu": 1})
    world.running(world.pod("whole", host, "gpu"))
    world.config("narrow", profiles=PROFILES)
    return host


def narrow(world: World, host: Host) -> bool:
    """One card is cut as wanted."""
    return world.has(host, NARROW, "narrow")


def under_a_persons_cordon(world: World) -> Host:
    """A node that somebody has cordoned, free of pods."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    host.agent.kill()
    world.cordon(host)
    world.edit(profile="narrow")
    return host


def still_cordoned(world: World, host: Host) -> None:
    """The cordon is the person's, and stays until the person lifts it."""
    assert world.node(host)["spec"]["unschedulable"]
    world.cordon(host, on=False)


def given_up(world: World) -> Host:
    """The MIGConfig is deleted while clients are away."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    paused = host.agent.hold(moments.pauses, after=True)
    world.edit(profile="narrow")
    paused.wait()
    host.agent.kill()
    world.plane.kubectl("delete", "migconfig", world.name)
    return host


def left_alone(world: World, host: Host) -> bool:
    """The MIGNode is gone, and nothing of ours is on the node."""
    names = {m["metadata"]["name"] for m in world.person.list(MIG_NODE).items}
    return host.name not in names and not world.labels(host) and host.counts() == WIDE


def rebooted(world: World) -> Host:
    """A Hopper card that has lost mode and slices."""
    host = world.host("H100-SXM5-80GB", slices=[NARROW])
    world.config("narrow", profiles=PROFILES)
    world.finished(host, NARROW, "narrow")
    host.agent.kill()
    host.simulated.reboot()
    return host


STORIES = (
    Story("recut", recut, recut_done, (*ALL_ACTS, *EVICTIONS), converged),
    Story("switched-on", switched_on, narrow, (*ALL_ACTS, *EVICTIONS)),
    Story("under-a-persons-cordon", under_a_persons_cordon, narrow, (f"{PAUSED}+", "Released"), still_cordoned),
    Story("given-up", given_up, left_alone, ("Released",)),
    Story("rebooted", rebooted, narrow, ("Repairing", "unschedulable+", "Released")),
)
TOLD = STORIES if ALL else STORIES[:1]


def caught_at_next(world: World, host: Host, story: Story, died_at: set[str], *, after: bool) -> Gate:
    """Start the agent and let it come to a write that it has not died at yet; the gate is empty when it needs none."""
    gate = host.agent.hold(lambda asked: moments.signature(asked) not in {"", *died_at}, after=after)
    host.agent.start()
    world.until("a write, or the end", lambda: gate.request or story.done(world, host))
    return gate


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", TOLD, ids=lambda s: s.name)
def test_agent_killed_at_everything_it_writes(world: World, matrix: Matrix, story: Story, after: bool) -> None:
    """At each different write, from cordon to release and around it, it dies once before, or without the answer."""
    matrix.scenario()
    host = story.begin(world)
    died_at: set[str] = set()
    while (gate := caught_at_next(world, host, story, died_at, after=after)).request is not None:
        gate.wait()
        died_at.add(moments.signature(gate.request))
        host.agent.kill()
        matrix.counts.kills += 1
    for act in story.acts:
        must(any(act in said for said in died_at), f"it never died at {act}: {died_at}")
    story.end(world, host)


INSIDE = [
    ("nvmlComputeInstanceDestroy", 1),  # recorded, nothing destroyed
    ("nvmlGpuInstanceDestroy", 1),  # half of a slice destroyed
    (CREATE, 1),  # nothing there yet
    (CREATE, 2),  # some of the new ones there
    ("nvmlGpuInstanceCreateComputeInstanceWithPlacement", 1),  # half of a slice created
]


def test_agent_killed_inside_apply(world: World, matrix: Matrix) -> None:
    """In calls of the driver, with an open record, again and again: it is finished or taken back each time."""
    matrix.scenario()
    host = start(world)
    world.edit(profile="narrow")
    for function, call in INSIDE:
        in_call = host.in_call(function, call)
        if not host.agent.running:
            host.agent.start()
        world.until(f"call {call} of {function}", in_call)
        host.agent.kill()
        matrix.counts.kills += 1
        must(Journal(host.journal).read().intent is not None, "a change without a record")
    host.agent.start()
    converged(world, host)


def test_agent_killed_while_a_pod_is_bound_but_not_admitted(world: World) -> None:
    """A pod that the kubelet has not seen yet may get any free slice: nothing is destroyed under it, kill or not."""
    host = start(world)
    late = f"{world.name}-late"
    host.simulated.hold_admission(lambda pod: pod["metadata"]["name"] == late)
    world.pod("late", host, "mig-3g.40gb")
    world.until("the pod to be bound", lambda: world.bound(late))

    world.edit(profile="narrow")
    world.until("the agent to wait for it", lambda: world.reason(host) == "PodNotAdmitted")
    host.agent.kill()
    assert both(WIDE) == host.counts()
    host.simulated.release_admission()
    world.running(late)

    host.agent.start()
    world.finished(host, both(NARROW), "narrow")
    phases = sorted(world.phase(f"{world.name}-{name}") for name in ("p0", "p1", "p2", "late"))
    assert ["Gone", "Gone", "Running", "Running"] == phases
