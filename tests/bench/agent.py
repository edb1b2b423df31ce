"""What the agent costs: memory, requests, and its own part of the time that a node is out."""

from __future__ import annotations

import math
import time
from pathlib import Path
from statistics import median

from mig_manager.kube.port import Object
from tests.bench.measure import Measure, Memory, cpu_s, percent, seconds
from tests.bench.outage import covered, outage
from tests.bench.requests import QUIET_S, at_rest, counted
from tests.bench.site import CARDS, NODE_NAME, Site, site
from tests.bench.timed import read
from tests.e2e.plane import Plane

IDLE_S = 20.0
PODS = CARDS + 2
"""From ``wide`` to ``narrow`` two at least have to go: a card keeps one."""

START_BUDGET = 13
"""kopf's discovery asks 6 times, its watches of the MIGNode and of our definition twice each, a pass reads 3 objects.
Without the second watch an agent would be deaf after the definitions were deleted and installed again."""
CHANGE_BUDGET = 36
"""Five passes (planned, drained, clients sent away, cut, advertised) of three reads and a status each are 20. Then 4
live reads before the first destroy (Lease, MIGNode, Node, pods), 1 look for a DRA driver, the claim, 6 patches of the
Node, and an Event each on Node and MIGNode at both ends."""
POD_BUDGET = 3
"""An Event ahead of time, a dry run, the eviction."""
ROUNDS = 4


def agent_measures(plane: Plane, directory: Path) -> tuple[list[Measure], Object]:
    """All of them, on a node of eight cards; and what its MIGNode says in the end."""
    with site(plane, directory) as it:
        return [*requests(it), *memory(it), *overhead(it)], it.status()


def requests(it: Site) -> list[Measure]:
    """How many requests an agent makes when it starts, while nothing happens, and for a change of layout."""
    agent = it.agent
    it.pods(PODS, "nvidia.com/mig-3g.40gb")
    before = at_rest(agent)
    it.restart_agent(proxied=True)
    started = at_rest(agent)
    time.sleep(IDLE_S)
    idle = len(agent.proxy.requests)
    it.want("narrow")
    it.done("narrow")
    changed = at_rest(agent)
    spent = outage(it.plane.recorder.history(), NODE_NAME)
    start = agent.proxy.requests[before:started]
    waiting = agent.proxy.requests[started:idle]
    change = agent.proxy.requests[idle:changed]
    allowed = CHANGE_BUDGET + POD_BUDGET * spent.evicted + math.ceil(spent.waiting_s)
    budget = f"≤ {CHANGE_BUDGET} + {POD_BUDGET} × {spent.evicted} pods + {math.ceil(spent.waiting_s)} s"
    print(f"agent's requests at start: {counted(start)}")
    print(f"agent's requests of a reconfiguration: {counted(change)}")
    what = f"agent: requests of a reconfiguration, {spent.evicted} pods evicted"
    return [
        Measure("agent: requests at start", str(len(start)), f"≤ {START_BUDGET}", len(start) > START_BUDGET),
        Measure(f"agent: requests while idle, {IDLE_S + QUIET_S:.0f} s", str(len(waiting)), "0", bool(waiting)),
        Measure(what, str(len(change)), budget, len(change) > allowed),
    ]


def memory(it: Site) -> list[Measure]:
    """Memory and processor time, without a proxy between agent and API server."""
    it.restart_agent(proxied=False)
    time.sleep(QUIET_S)
    used, since = cpu_s(it.agent.pid), time.monotonic()
    time.sleep(IDLE_S)
    used, idle = (cpu_s(it.agent.pid) - used) / (time.monotonic() - since), Memory.of(it.agent.pid)
    for profile in ("wide", "narrow"):
        it.want(profile)
        it.done(profile)
    return [
        Measure("agent: memory, idle since its start", idle.text, "≤ 85 MiB"),
        Measure("agent: memory after two reconfigurations", Memory.of(it.agent.pid).text, "≤ 85 MiB"),
        Measure("agent: processor time while idle, of one core", percent(used)),
    ]


def overhead(it: Site) -> list[Measure]:
    """How long a reconfiguration takes when others and the driver take no time."""
    calls = it.directory / "calls"
    it.agent.program = ("-m", "tests.bench.timed", str(calls))
    it.restart_agent(proxied=False)
    spent = []
    for number in range(ROUNDS):
        profile = ("wide", "narrow")[number % 2]
        it.want(profile)
        it.done(profile)
        spent.append(outage(it.plane.recorder.history(), NODE_NAME))
    driver = read(calls)
    own = [one.own_s(driver) for one in spent]
    return [
        Measure(f"reconfiguration of {CARDS} cards: grant to Released", seconds(median(s.total_s for s in spent))),
        Measure("  of it until clients have gone, and are back", seconds(median(s.waiting_s for s in spent))),
        Measure("  of it in the simulated driver", seconds(median(covered(driver, s.start, s.end) for s in spent))),
        Measure(f"  own overhead, median of {ROUNDS}", seconds(median(own)), "< 2 s"),
        Measure(f"  own overhead, least of {ROUNDS}", seconds(min(own)), "< 2 s"),
    ]
