"""The agent's process is killed, and started again: whatever it was doing, all promises hold and the pool gets there.

Every kill is at an exact place: a request that is held at the API server's door or after it was carried out, or a call
of the driver that does not return. Three kills in each change, so that recovering is interrupted as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mig_manager.gpu.journal import Journal
from tests.e2e import moments
from tests.e2e.layouts import NARROW, PROFILES, WIDE, both
from tests.e2e.moments import Moment
from tests.e2e.world import CREATE, Host, World

pytestmark = pytest.mark.cluster

Trap = Callable[[World, Host], Callable[[], None]]
"""Set up before the agent gets there; what it returns waits until the agent is caught."""


def before(moment: Moment) -> Trap:
    """The request has been sent, and never arrives."""
    return lambda _, host: host.agent.hold(moment, after=False).wait


def after(moment: Moment) -> Trap:
    """The request has been carried out, and the agent never hears of it."""
    return lambda _, host: host.agent.hold(moment, after=True).wait


def inside(function: str, call: int) -> Trap:
    """A call of the driver does not return; the record is open."""

    def trap(world: World, host: Host) -> Callable[[], None]:
        in_call = host.in_call(function, call)

        def caught() -> None:
            world.until(f"call {call} of {function}", in_call)
            assert Journal(host.journal).read().intent is not None

        return caught

    return trap


def start(world: World) -> Host:
    """Three pods on the four slices of a node, and a budget that lets one of them go."""
    host = world.host("A100-SXM4-80GB*2", slices=[WIDE, WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, both(WIDE), "wide")
    world.running(*(world.pod(f"p{n}", host, "mig-3g.40gb") for n in range(3)))
    world.budget(2)
    return host


def kill_at(world: World, host: Host, traps: Sequence[Trap]) -> None:
    """Kill the agent in each of the traps; the last time it starts again without one."""
    for trap in traps:
        caught = trap(world, host)
        if not host.agent.running:
            host.agent.start()
        caught()
        host.agent.kill()
    host.agent.start()


CHAINS = [
    pytest.param([after(moments.takes_up), after(moments.evicts), before(moments.resumes)], id="held-evicted-applied"),
    pytest.param([before(moments.cordons), after(moments.pauses), after(moments.lets_in)], id="held-paused-let-in"),
    pytest.param(
        [after(moments.cordons), inside("nvmlComputeInstanceDestroy", 1), inside(CREATE, 2)],
        id="cordoned-recorded-creating",
    ),
    pytest.param(
        [before(moments.evicts), inside("nvmlGpuInstanceDestroy", 1), before(moments.releases)],
        id="draining-destroying-done",
    ),
]


@pytest.mark.parametrize("traps", CHAINS)
def test_agent_killed(world: World, traps: Sequence[Trap]) -> None:
    """Killed three times on the way, it gets there: one pod was evicted, and two never noticed."""
    host = start(world)
    first, *others = traps
    caught = first(world, host)
    world.edit(profile="narrow")
    caught()
    host.agent.kill()
    kill_at(world, host, others)
    world.finished(host, both(NARROW), "narrow")
    world.ready()
    assert ["Gone", "Running", "Running"] == sorted(world.phase(f"{world.name}-p{n}") for n in range(3))


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
