"""What the controller costs with a large pool: memory, processor time, and how soon it says something."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import MIG_CONFIG
from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from tests.bench.fleet import Crowd
from tests.bench.measure import Measure, Memory, cpu_s, percent, seconds
from tests.bench.site import config
from tests.conftest import CRDS
from tests.deploy.manifests import DEPLOY
from tests.e2e.plane import PERSON, PRODUCT
from tests.e2e.processes import Process
from tests.e2e.waiting import until

POOL = "crowd"
SETTLE_S = 10.0
IDLE_S = 30.0
DEADLINE_S = 600.0


def controller_measures(programs: Programs, nodes: int, like: Mapping[str, Any]) -> list[Measure]:
    """All of them. No agents run: their pods are not watched, and their answers are written in bulk.

    On a control plane of its own, where nobody but the controller watches.
    """
    with ControlPlane(programs, CRDS) as plane:
        access = plane.access
        _install(access)
        person = KubernetesCluster.from_kubeconfig(PERSON, access.kubeconfig)
        crowd = Crowd(person, POOL, nodes, like)
        crowd.create()
        person.create(MIG_CONFIG, config(POOL, "wide"))
        found = _measure(access, person, crowd)
        person.close()
        return found


def _install(access: Access) -> None:
    """The roles of ``deploy/base``; its programs are taken away again."""
    kubectl = [str(find_kubectl()), f"--kubeconfig={access.kubeconfig}"]
    for command in (
        ["apply", "--server-side", "-k", str(DEPLOY / "base")],
        ["--namespace", PRODUCT, "delete", "deployment,daemonset", "--all"],
    ):
        subprocess.run([*kubectl, *command], check=True, capture_output=True)


def _measure(access: Access, person: KubernetesCluster, crowd: Crowd) -> list[Measure]:
    nodes = len(crowd.names)
    log = access.directory / "bench-controller.log"
    arguments = ["controller", "--namespace", PRODUCT, "--agent-selector", ""]

    def account() -> Path:
        return access.kubeconfig_for_service_account(PRODUCT, "controller")

    with Process("controller", access, log, account, arguments) as controller:
        controller.proxied = False
        fresh_s = _first_status(person, controller, nodes)
        ready_s = _all_ready(person, crowd, nodes)
        busy = Memory.of(controller.pid)
        controller.stop()
        person.patch(MIG_CONFIG, POOL, {"spec": {"disruption": {"maxUnavailable": 2}}})
        again_s = _first_status(person, controller, nodes)
        _all_ready(person, crowd, nodes)
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


def _first_status(person: KubernetesCluster, controller: Process, nodes: int) -> float:
    """Start the controller; how long until it has said something about this version of the MIGConfig."""
    start = time.monotonic()
    controller.start()

    def said() -> bool:
        found = person.get(MIG_CONFIG, POOL)
        status = found.get("status", {})
        fresh = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(fresh and status["nodes"]["total"] == nodes)

    until("the first status", said, explain=controller.tail, deadline_s=DEADLINE_S)
    return time.monotonic() - start


def _all_ready(person: KubernetesCluster, crowd: Crowd, nodes: int) -> float:
    """Answer for the agents until the pool is Ready; how long that took."""
    start = time.monotonic()
    until("the pool to be ready", lambda: crowd.answer() == nodes and _ready(person, nodes), deadline_s=DEADLINE_S)
    return time.monotonic() - start


def _ready(person: KubernetesCluster, nodes: int) -> bool:
    found = person.get(MIG_CONFIG, POOL)
    status = found["status"]
    return (found["metadata"]["generation"], nodes) == (status["observedGeneration"], status["nodes"]["ready"])
