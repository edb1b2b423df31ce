"""The API server, or whatever stands before it, fails a process in every way that a watch can meet.

Few requests knock meanwhile, the process lives on, and afterwards everything gets where it belongs.
"""

from __future__ import annotations

import pytest

from mig_manager.kube.informer import BURST, INTERVAL_S
from mig_manager.kube.kinds import MIG_NODE
from tests.chaos.counting import ALL, Matrix, must
from tests.e2e import moments
from tests.e2e.hosts import Host
from tests.e2e.layouts import NARROW, PROFILES, WIDE
from tests.e2e.processes import Process
from tests.e2e.proxy import Request, Trouble
from tests.e2e.world import World

GONE = '{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}'
MINUTE_S = 60.0
OWN_PER_MINUTE = 30
"""What a process may ask in a minute beside kopf: passes with growing distance, and Lease renewals."""

LONGER_THAN_THE_BURST = BURST + 4


def watch(asked: Request) -> bool:
    """A watch of kopf's."""
    return "watch=" in asked.query


def anything(_: Request) -> bool:
    """Whatever it asks."""
    return True


def watch_of_mignodes(asked: Request) -> bool:
    """The agent's watch on its own object."""
    return watch(asked) and MIG_NODE.plural in asked.path.split("/")


def one_wide(world: World) -> Host:
    """A node with its layout."""
    host = world.host("A100-SXM4-80GB", slices=[WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, WIDE, "wide")
    return host


def of(world: World, host: Host, who: str) -> Process:
    """The agent or the controller."""
    return host.agent if who == "agent" else world.controller


WAYS = {
    "watches-closed-at-once": (Trouble(watch, 200, ""), LONGER_THAN_THE_BURST),
    "watches-expired": (Trouble(watch, 200, GONE), 6),
    "hung-up": (Trouble(anything), 6),
    "401-token-expired": (Trouble(anything, 401), 10),
    "500-internal": (Trouble(anything, 500), 6),
    "429-slow-down": (Trouble(anything, 429), 6),
}
BY_DEFAULT = [("agent", "watches-closed-at-once"), ("agent", "401-token-expired"), ("controller", "hung-up")]
CASES = [(who, way) for who in ("agent", "controller") for way in WAYS] if ALL else BY_DEFAULT


@pytest.mark.parametrize(("who", "way"), CASES)
def test_server_fails_in_mid_flight(world: World, matrix: Matrix, who: str, way: str) -> None:
    """While a node is being changed it begins; the process is the same when it is over, and the change is finished."""
    matrix.scenario()
    host = one_wide(world)
    process = of(world, host, who)
    pid = process.pid
    pattern, enough = WAYS[way]
    paused = host.agent.hold(moments.pauses, after=True)
    world.edit(profile="narrow")
    paused.wait()
    with matrix.attempt(f"{who}: {way}", faults=1):
        with process.proxy.trouble(Trouble(pattern.meant, pattern.status, pattern.text)) as trouble:
            paused.open()
            world.until(f"{enough} requests to fail", lambda: len(trouble.struck) >= enough)
        if pattern.meant is watch:
            times = tuple(trouble.struck)
            most = BURST + 1 + (times[-1] - times[0]) / INTERVAL_S
            must(len(times) <= most, f"kopf asked {len(times)} times, and {most:.0f} are allowed")
        limit = BURST + MINUTE_S / INTERVAL_S + OWN_PER_MINUTE
        asked = trouble.most(MINUTE_S)
        must(asked <= limit, f"{asked} requests within a minute, and {limit} are allowed")
        must(process.running and process.pid == pid, "the process has ended")
        world.finished(host, NARROW, "narrow")
        world.ready()


def test_deletion_that_nobody_told(world: World, matrix: Matrix) -> None:
    """The agent's watch is away while its MIGNode goes, and the new watch begins after it: it notices all the same."""
    matrix.scenario()
    host = one_wide(world)
    with matrix.attempt("a lost deletion", faults=1):
        with host.agent.proxy.trouble(Trouble(watch_of_mignodes, 200, GONE)) as trouble:
            world.until("the watch to be away", lambda: trouble.struck)
            world.plane.kubectl("delete", "migconfig", world.name)
            world.until("the answer to be asked for", lambda: "desired" not in world.mignode(host)["spec"])
        world.until("our labels to be gone", lambda: not world.labels(host))
