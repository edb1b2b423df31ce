"""What the controller costs with a large pool: memory, processor time, and how soon it says something."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mig_manager.kube.kinds import MIG_CONFIG
from tests.bench.fleet import Crowd
from tests.bench.measure import Measure, Memory, cpu_s, percent, seconds
from tests.bench.site import config
from tests.e2e.plane import PRODUCT, Plane
from tests.e2e.processes import Process
from tests.e2e.waiting import until

POOL = "crowd"
SETTLE_S = 10.0
IDLE_S = 30.0
DEADLINE_S = 600.0


def controller_measures(plane: Plane, nodes: int, like: Mapping[str, Any]) -> list[Measure]:
    """All of them. No agents run: their pods are not watched, and their answers are written in bulk."""
    plane.controller.stop()
    plane.kubectl("delete", "daemonset", "--all", "--all-namespaces")
    crowd = Crowd(plane.person, POOL, nodes, like)
    crowd.create()
    plane.person.create(MIG_CONFIG, config(POOL, "wide"))
    log = plane.access.directory / "bench-controller.log"
    arguments = ["controller", "--namespace", PRODUCT, "--agent-selector", ""]

    def account() -> Path:
        return plane.access.kubeconfig_for_service_account(PRODUCT, "controller")

    with Process("controller", plane.access, log, account, arguments) as controller:
        controller.proxied = False
        fresh_s = _first_status(plane, controller, nodes)
        ready_s = _all_ready(plane, crowd, nodes)
        busy = Memory.of(controller.pid)
        controller.stop()
        plane.person.patch(MIG_CONFIG, POOL, {"spec": {"disruption": {"maxUnavailable": 2}}})
        again_s = _first_status(plane, controller, nodes)
        _all_ready(plane, crowd, nodes)
        time.sleep(SETTLE_S)
        used, since = cpu_s(controller.pid), time.monotonic()
        time.sleep(IDLE_S)
        used, idle = (cpu_s(controller.pid) - used) / (time.monotonic() - since), Memory.of(controller.pid)
    return [
        Measure(f"controller: start to first status, {nodes} new Nodes", seconds(fresh_s), "< 20 s at 5000"),
        Measure("controller: from there until all are Ready, answered in bulk", seconds(ready_s)),
        Measure(f"controller: start to first status, {nodes} MIGNodes", seconds(again_s), "< 20 s at 5000"),
        Measure("controller: memory after the pool was made", busy.text, "< 250 MiB at 5000"),
        Measure("controller: memory, idle", idle.text, "< 250 MiB at 5000"),
        Measure("controller: processor time while idle, of one core", percent(used), "< 1 %"),
    ]


def _first_status(plane: Plane, controller: Process, nodes: int) -> float:
    """Start the controller; how long until it has said something about this version of the MIGConfig."""
    start = time.monotonic()
    controller.start()

    def said() -> bool:
        found = plane.person.get(MIG_CONFIG, POOL)
        status = found.get("status", {})
        fresh = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(fresh and status["nodes"]["total"] == nodes)

    until("the first status", said, explain=controller.tail, deadline_s=DEADLINE_S)
    return time.monotonic() - start


def _all_ready(plane: Plane, crowd: Crowd, nodes: int) -> float:
    """Answer for the agents until the pool is Ready; how long that took."""
    start = time.monotonic()
    until("the pool to be ready", lambda: crowd.answer() == nodes and _ready(plane, nodes), deadline_s=DEADLINE_S)
    return time.monotonic() - start


def _ready(plane: Plane, nodes: int) -> bool:
    found = plane.person.get(MIG_CONFIG, POOL)
    status = found["status"]
    return (found["metadata"]["generation"], nodes) == (status["observedGeneration"], status["nodes"]["ready"])
