"""The agent's process is killed, and started again: whatever it was doing, all promises hold and the pool gets there.

Every kill is at an exact place: a request that is held at the API server's door or after it was carried out, or a call
of the driver that does not return. Many kills in one change, so that recovering is interrupted as well.
"""

from __future__ import annotations

import pytest

from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.gpu.journal import Journal
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


ACTS = (
    "Held",
    "unschedulable+",
    "eviction on trial",
    "eviction for good",
    f"{PAUSED}+",
    f"{PAUSED}-",
    f"{CORDONED}-",
    "Released",
)
"""What an agent writes from cordon to release, as signatures have it."""


def caught_at_next(world: World, host: Host, done: set[str], *, after: bool) -> Gate:
    """Start the agent and let it come to a write that it has not died at yet; the gate is empty when it needs none."""
    gate = host.agent.hold(lambda asked: moments.signature(asked) not in {"", *done}, after=after)
    host.agent.start()
    world.until("a write, or the end", lambda: gate.request or world.has(host, both(NARROW), "narrow"))
    return gate


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_agent_killed_at_everything_it_writes(world: World, after: bool) -> None:
    """At each different write, from cordon to release and around it, it dies once before, or without the answer."""
    host = start(world)
    host.agent.kill()
    world.edit(profile="narrow")
    done: set[str] = set()
    while (gate := caught_at_next(world, host, done, after=after)).request is not None:
        gate.wait()
        done.add(moments.signature(gate.request))
        host.agent.kill()
    for act in ACTS:
        assert any(act in said for said in done), f"it never died at {act}: {done}"
    converged(world, host)


INSIDE = [
    ("nvmlComputeInstanceDestroy", 1),  # recorded, nothing destroyed
    ("nvmlGpuInstanceDestroy", 1),  # half of a slice destroyed
    (CREATE, 2),  # some of the new ones there
    ("nvmlGpuInstanceCreateComputeInstanceWithPlacement", 1),  # half of a slice created
]


def test_agent_killed_inside_apply(world: World) -> None:
    """In calls of the driver, with an open record, again and again: it is finished or taken back each time."""
    host = start(world)
    world.edit(profile="narrow")
    for function, call in INSIDE:
        in_call = host.in_call(function, call)
        if not host.agent.running:
            host.agent.start()
        world.until(f"call {call} of {function}", in_call)
        host.agent.kill()
        assert Journal(host.journal).read().intent is not None
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
