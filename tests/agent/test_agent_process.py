"""The real agent process on the real API server, with a simulated node whose kubelet and plugin speak gRPC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.api.layout import layout_hash, layout_to_dict
from mig_manager.geometry.layout import Layout
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.kinds import DAEMON_SET, LEASE, MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import PLUGIN_DAEMON_SET, device_plugin_daemon_set
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.pod_spec import SHUTDOWN_SECONDS
from tests.agent.layouts import every

DEADLINE_S = 60.0
LEADER = "controller-of-the-test"
TARGET = every("1g*3", "3g")
BARE_PODS_MAY_GO = {"force": True}


def until(what: str, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.02)


@dataclass
class Place:
    """A node of its own on the shared control plane, and the agent process that looks after it."""

    cluster: KubernetesCluster
    access: Access
    name: str
    directory: Path
    machine: Machine
    fleet: Fleet
    socket: Path
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def node(self) -> dict[str, Any]:
        """The Node."""
        return self.cluster.get(NODE, self.name)

    @property
    def status(self) -> dict[str, Any]:
        """The MIGNode's status."""
        return dict(self.cluster.get(MIG_NODE, self.name).get("status") or {})

    @property
    def ready(self) -> tuple[str, str]:
        """The Ready condition."""
        for condition in self.status.get("conditions", ()):
            if condition["type"] == "Ready":
                return condition["status"], condition["reason"]
        return "", ""

    @property
    def notes(self) -> Mapping[str, str]:
        """The Node's annotations."""
        return self.node["metadata"].get("annotations") or {}

    def shape(self) -> list[tuple[int, int]]:
        """Start and size of every slice on the first card."""
        return sorted((i.start, i.size) for i in self.machine.card(0).instances)

    def start(self) -> subprocess.Popen[bytes]:
        """Start an agent process."""
        command = [sys.executable, "-m", "mig_manager", "agent", "--node", self.name]
        command += ["--sim", str(self.directory / "box.sim"), "--kubeconfig", str(self.access.kubeconfig)]
        command += ["--state-dir", str(self.directory / "state"), "--pod-resources", str(self.socket)]
        command += ["--namespace", self.name, "--advertise-timeout", "60"]
        log = (self.directory / "agent.log").open("ab")
        agent = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.agents.append(agent)
        return agent

    def stop(self) -> None:
        """End the agents."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.terminate()
        for agent in self.agents:
            try:
                agent.wait(20)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()

    def want(self, layout: Layout, grant: int = 0) -> None:
        """What a controller would write; a grant of that id with a slot, if any."""
        desired = {
            "config": self.name,
            "generation": 1,
            "profile": "p",
            "layout": layout_to_dict(layout),
            "hash": layout_hash(layout),
            "drain": BARE_PODS_MAY_GO,
        }
        spec: dict[str, Any] = {"schema": 1, "nodeUID": self.node["metadata"]["uid"], "desired": desired}
        if grant:
            terms = {"id": grant, "by": LEADER, "slot": True, "hash": desired["hash"], "profile": "p"}
            spec["grant"] = {**terms, "layout": desired["layout"], "drain": BARE_PODS_MAY_GO}
        try:
            self.cluster.get(MIG_NODE, self.name)
        except ClusterError:
            self.cluster.create(MIG_NODE, {"metadata": {"name": self.name}, "spec": spec})
        else:
            self.cluster.patch(MIG_NODE, self.name, {"spec": spec})

    def pod(self, name: str, resource: str, labels: Mapping[str, str] | None = None) -> None:
        """A pod for this node, through the scheduler."""
        body = {
            "metadata": {"name": name, "labels": dict(labels or {}), "annotations": {SHUTDOWN_SECONDS: "0"}},
            "spec": {
                "containers": [{"name": "c", "image": "none", "resources": {"limits": {resource: "1"}}}],
                "nodeSelector": {"kubernetes.io/hostname": self.name},
                "terminationGracePeriodSeconds": 1,
            },
        }
        self.cluster.create(POD, body, self.name)
        until(f"pod {name} to run", lambda: self.phase(name) == "Running")

    def phase(self, name: str) -> str:
        """A pod's phase."""
        pods = {p["metadata"]["name"]: p for p in self.cluster.list(POD, self.name).items}
        return str(pods[name]["status"]["phase"]) if name in pods else "Gone"

    def assert_clean(self) -> None:
        """Nothing of ours is left."""
        assert not {CORDONED, PAUSED} & set(self.notes)
        assert not self.node["spec"].get("unschedulable")
        assert "true" == self.node["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"]


@pytest.fixture
def place(control_plane: Access, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A node with one A100 cut into 1g, 2g and 3g, and its device plugin."""
    name = f"agent-{request.node.name.removeprefix('test_').replace('_', '-').replace('[', '-').rstrip(']')}"
    status, answer = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert 201 == status, answer
    cluster = KubernetesCluster.from_kubeconfig("test", control_plane.kubeconfig)
    only = {"kubernetes.io/hostname": name}
    cluster.create(DAEMON_SET, device_plugin_daemon_set(Strategy.MIXED, name, only), name)
    lease = {"metadata": {"name": "mig-manager-controller"}, "spec": {"holderIdentity": LEADER}}
    cluster.create(LEASE, lease, name)
    machine = Machine.create(tmp_path / "box.sim", ["A100-SXM4-80GB"], mig=True)
    for profile, start in (("1g", 0), ("2g", 2), ("3g", 4)):
        machine.add_instance(0, profile, start=start)
    with Fleet(cluster) as fleet:
        node = fleet.add(name, machine)
        fleet.run(interval_s=0.1)
        socket = node.root / "pod-resources" / "kubelet.sock"
        made = Place(cluster, control_plane, name, tmp_path, machine, fleet, socket)
        until("devices", lambda: "nvidia.com/mig-2g.20gb" in made.node["status"]["allocatable"])
        yield made
        made.stop()
        cluster.delete(DAEMON_SET, PLUGIN_DAEMON_SET, name)
        node.remove()


def test_whole_life(place: Place) -> None:
    """From a grant to Ready: one pod evicted, a busy slice kept, cut, advertised, labelled; then idle."""
    place.pod("keeps", "nvidia.com/mig-3g.40gb")
    place.pod("goes", "nvidia.com/mig-2g.20gb")
    place.want(TARGET)
    place.start()
    until("the plan", lambda: place.status.get("plan", {}).get("evict") == [f"{place.name}/goes"])
    place.want(TARGET, grant=1)
    until("Ready", lambda: place.ready == ("True", "Ready"))
    assert [(0, 1), (1, 1), (2, 1), (4, 4)] == place.shape()
    assert ("Running", "Gone") == (place.phase("keeps"), place.phase("goes"))
    labels = place.node["metadata"]["labels"]
    assert ("3", "1") == (labels["migmanager.io/mig-1g.10gb"], labels["migmanager.io/mig-3g.40gb"])
    place.assert_clean()
    assert {"id": 1, "state": "Released", "result": "Applied"} == place.status["grant"]
    version = place.cluster.get(MIG_NODE, place.name)["metadata"]["resourceVersion"]
    # A second agent waits for the host lock, and takes over when the first ends.
    second = place.start()
    place.agents[0].send_signal(signal.SIGTERM)
    place.agents[0].wait(20)
    place.machine.remove_instance(0, start=0)
    until("the repair", lambda: (0, 1) in place.shape() and place.ready == ("True", "Ready"))
    assert second.poll() is None
    assert version != place.cluster.get(MIG_NODE, place.name)["metadata"]["resourceVersion"]
    place.assert_clean()


@pytest.mark.parametrize("moment", ["held", "cordoned", "paused", "begun"])
def test_sigkill(place: Place, moment: str) -> None:
    """Killed by SIGKILL at that moment and started again, the agent ends where it would have ended."""
    place.pod("keeps", "nvidia.com/mig-3g.40gb")
    place.pod("goes", "nvidia.com/mig-2g.20gb")
    place.want(TARGET)
    agent = place.start()
    until("the plan", lambda: "plan" in place.status)
    journal = place.directory / "state" / "journal.json"
    reached = {
        "held": lambda: place.status.get("grant", {}).get("state") == "Held",
        "cordoned": lambda: CORDONED in place.notes,
        "paused": lambda: PAUSED in place.notes,
        "begun": lambda: journal.exists() and '"intent": {' in journal.read_text(),
    }[moment]
    if moment == "begun":
        # Slow enough that the kill falls into the middle of the change.
        place.machine.inject("nvmlGpuInstanceDestroy", latency_ms=1500, calls=[1])
    place.want(TARGET, grant=1)
    until(moment, reached)
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    place.start()
    until("Ready", lambda: place.ready == ("True", "Ready"))
    assert [(0, 1), (1, 1), (2, 1), (4, 4)] == place.shape()
    assert ("Running", "Gone") == (place.phase("keeps"), place.phase("goes"))
    place.assert_clean()


def test_budget_on_the_real_server(place: Place) -> None:
    """A PodDisruptionBudget blocks: nobody is evicted, and revoking gives the node back; a person's cordon stays."""
    place.pod("goes", "nvidia.com/mig-2g.20gb", {"app": "guarded"})
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    place.cluster.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": budget}, place.name)
    place.want(TARGET)
    place.start()
    until("the plan", lambda: "plan" in place.status)
    place.want(TARGET, grant=1)
    until("to be blocked", lambda: place.ready == ("False", "EvictionBlocked"))
    person = KubernetesCluster.from_kubeconfig("kubectl", place.access.kubeconfig)
    person.patch(NODE, place.name, {"spec": {"unschedulable": None}})
    person.patch(NODE, place.name, {"spec": {"unschedulable": True}})
    place.cluster.patch(MIG_NODE, place.name, {"spec": {"grant": {"revoked": True}}})
    until("to be released", lambda: place.status["grant"]["state"] == "Released")
    assert "Running" == place.phase("goes")
    assert place.node["spec"]["unschedulable"]
    assert not {CORDONED, PAUSED} & set(place.notes)
    assert ("Aborted", "GrantRevoked") == (place.status["grant"]["result"], place.status["grant"]["reason"])
