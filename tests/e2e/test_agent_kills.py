"""The agent's process is killed, and started again: whatever it was doing, all promises hold and the pool gets there.

Every kill is at an exact place: a request that is held at the API server's door or after it was carried out, or a call
of the driver that does not return.
"""

from __future__ import annotations

import pytest

from mig_manager.gpu.journal import Journal
from tests.e2e import moments
from tests.e2e.layouts import NARROW, PROFILES, WIDE, both
from tests.e2e.moments import Moment
from tests.e2e.world import CREATE, Host, World

pytestmark = pytest.mark.cluster


@pytest.fixture
def pool(world: World) -> World:
    """Two nodes of which one is at work next: three pods on four slices, and a budget that lets one of them go."""
    host = world.host("A100-SXM4-80GB*2", slices=[WIDE, WIDE])
    world.controller()
    world.config("wide", profiles=PROFILES)
    world.finished(host, both(WIDE), "wide")
    pods = [world.pod(f"p{n}", host, "mig-3g.40gb") for n in range(3)]
    world.running(*pods)
    world.budget(2)
    return world


def host_of(world: World) -> Host:
    (host,) = world.hosts.values()
    return host


def converges(world: World) -> None:
    """The agent comes back, and everything is as if nothing had happened: one pod was evicted, two never noticed."""
    host = host_of(world)
    host.agent.start()
    world.finished(host, both(NARROW), "narrow")
    world.ready()
    phases = [world.phase(f"{world.name}-p{n}") for n in range(3)]
    assert ["Gone", "Running", "Running"] == sorted(phases)


REQUESTS = [
    pytest.param(moments.takes_up, True, id="held, and does not know it"),
    pytest.param(moments.cordons, False, id="held, not cordoned"),
    pytest.param(moments.cordons, True, id="cordoned, and does not know it"),
    pytest.param(moments.evicts, True, id="a pod evicted"),
    pytest.param(moments.pauses, True, id="clients paused"),
    pytest.param(moments.resumes, False, id="cards done, clients still paused"),
    pytest.param(moments.lets_in, True, id="let in, not released"),
]


@pytest.mark.parametrize(("moment", "after"), REQUESTS)
def test_killed_between_steps(pool: World, moment: Moment, after: bool) -> None:
    """Killed at a request, before or after the server has carried it out, it goes on from what it finds."""
    agent = host_of(pool).agent
    gate = agent.hold(moment, after=after)
    pool.edit(profile="narrow")
    gate.wait()
    agent.kill()
    converges(pool)


CALLS = [
    pytest.param("nvmlComputeInstanceDestroy", 1, id="recorded, nothing destroyed"),
    pytest.param("nvmlGpuInstanceDestroy", 1, id="half of a slice destroyed"),
    pytest.param("nvmlComputeInstanceDestroy", 2, id="one slice destroyed"),
    pytest.param(CREATE, 2, id="some slices created"),
]


@pytest.mark.parametrize(("function", "call"), CALLS)
def test_killed_inside_apply(pool: World, function: str, call: int) -> None:
    """Killed in a call of the driver, with an open record: it is finished or taken back, and then all goes on."""
    host = host_of(pool)
    in_call = host.in_call(function, call)
    pool.edit(profile="narrow")
    pool.until("the agent to be in that call", in_call)
    host.agent.kill()
    assert Journal(host.journal).read().intent is not None
    converges(pool)
