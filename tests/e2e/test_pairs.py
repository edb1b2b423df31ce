"""Two of a kind at once: agents on one host, controllers in one cluster."""

from __future__ import annotations

from tests.e2e.layouts import NARROW, PROFILES, WIDE
from tests.e2e.plane import controller_process
from tests.e2e.world import World


def test_two_agents_on_one_host(world: World) -> None:
    """The second waits for the host lock, and takes over when the first is killed."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    second = world.agent_for(host.name, host.machine, host.simulated, host.journal.parent, "second agent")
    second.start()
    world.until("the second to wait", lambda: "is changing the GPUs of this host" in second.tail())

    world.edit(profile="narrow")
    world.finished(host, NARROW, "narrow")
    assert all("nodes" not in asked.path.split("/") for asked in second.proxy.requests)

    host.agent.kill()
    world.edit(profile="wide")
    world.finished(host, WIDE, "wide")


def test_two_controllers(world: World) -> None:
    """The second waits; when the first is killed, it takes over as soon as the Lease has run out."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    with controller_process(world.plane.access, "second-controller") as second:
        second.start()
        world.until("the second to wait", lambda: "waiting for the lease" in second.tail())
        world.controller.kill()
        world.edit(profile="narrow")
        world.finished(host, NARROW, "narrow")
        # It gives the Lease back, so the next one need not wait.
        second.stop()
