"""A node for the product's real agent: cards, host file, a kubelet and a device plugin of a few lines, and one pod.

Everything but the agent moves only when told to, so that what happens in which order is the test's choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pynvml

from mig_manager.agent.agent import Agent
from mig_manager.agent.clients import GpuClient, load_clients
from mig_manager.agent.context import Memory, Ports, Settings
from mig_manager.gpu.holders import process_users
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.port import GpuSession
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.memory import MemoryCluster, Store
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import GpuInstanceState
from mig_manager.sim.node.plugin_devices import Strategy, enumerate_devices
from mig_manager.sim.nvml import installed
from tests.protocol.actors import Actor, ActorsJournal, ActorsLibrary

AGENT = "mig-manager-agent"
LEASE_NAME, NAMESPACE = "mig-manager-controller", "mig-manager"
PLUGIN_GATE = "nvidia.com/gpu.deploy.device-plugin"
OPERATOR, WORK = "gpu-operator", "default"
POOL = {"pool": "a"}


class Clock:
    """Time of day and monotonic time, which pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds

    def now(self) -> datetime:
        """The time of day."""
        return datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@dataclass
class Running:
    """The pod's slice: its resource and device, the birth of its GPU instance, and its process if it has one yet."""

    resource: str
    device: str
    birth: int
    pid: int | None


class Host:
    """One node; the pod on it, if any, is called like the node."""

    def __init__(self, name: str, store: Store, clock: Clock, actor: Actor) -> None:
        self.name, self.clock, self.actor = name, clock, actor
        self.machine = Machine.create(None, ["A30"], mig=True, seed=name)
        self.journal = ActorsJournal(actor)
        self.kube = MemoryCluster(store, "kubelet")
        self.people = MemoryCluster(store, "kubectl")
        self.cluster = MemoryCluster(store, AGENT, before=actor.request)
        self.running: Running | None = None
        self.offered: dict[str, tuple[str, ...]] = {}
        self.persons_cordon = False
        self._plugin_uid = ""
        self._machines = 1
        self.restart_agent()
        self.register()

    # -- the agent --

    def restart_agent(self) -> None:
        """A new process: what the one before it remembered is gone."""
        self.agent = Agent(
            Ports(
                cluster=self.cluster,
                gpus=self,
                pod_resources=self,
                journal=self.journal,
                clock=self.clock,
                users=process_users,
                reset=None,
                device_files=lambda: self.actor.point("device files"),
                boot_id=lambda: self.machine.read().boot_id,
                reboot=None,
            ),
            Settings(self.name, _clients(), LEASE_NAME, NAMESPACE),
            Memory(),
        )

    @contextmanager
    def session(self) -> Iterator[GpuSession]:
        """The Gpus port: the real NVML client on this machine."""
        with installed(self.machine, self.clock.sleep):
            pynvml.nvmlLib = ActorsLibrary(self.actor)
            with NvmlGpus().session() as session:
                yield session

    def list(self) -> tuple[PodDevices, ...]:
        """The PodResources port: who holds what."""
        held = self.running
        if held is None:
            return ()
        devices = ContainerDevices("c", (Devices(held.resource, (held.device,)),))
        return (PodDevices(WORK, self.name, (devices,)),)

    def allocatable(self) -> tuple[Devices, ...]:
        """The PodResources port: what there is."""
        return tuple(Devices(resource, ids) for resource, ids in sorted(self.offered.items()))

    # -- Node, kubelet and plugin --

    @property
    def node(self) -> dict[str, Any]:
        """The Node."""
        return self.people.get(NODE, self.name)

    @property
    def instances(self) -> Sequence[GpuInstanceState]:
        """The slices on the card."""
        return self.machine.card(0).instances

    def register(self) -> None:
        """Create the Node."""
        self.kube.create(NODE, {"metadata": {"name": self.name, "labels": {**POOL, PLUGIN_GATE: "true"}}, "spec": {}})
        self.set_ready(ready=True)

    def set_ready(self, *, ready: bool) -> None:
        """What the kubelet says about itself."""
        condition = {"type": "Ready", "status": str(ready)}
        status = {"conditions": [condition], "nodeInfo": {"bootID": self.machine.read().boot_id}}
        self.kube.patch(NODE, self.name, {"status": status}, subresource="status")

    def tick(self) -> None:
        """Pods that are leaving end, the plugin's DaemonSet follows its gate, the kubelet reports what is offered."""
        pod = self.pod
        if pod is not None and "deletionTimestamp" in pod["metadata"]:
            self.end_pod()
        plugin = self._find(OPERATOR)
        gate = (self.node["metadata"].get("labels") or {}).get(PLUGIN_GATE)
        if plugin is not None and gate != "true":
            self.kube.delete(POD, self.name, OPERATOR, grace_s=0)
            plugin = None
        elif plugin is None and gate == "true":
            plugin = self._start(OPERATOR, {"app": "nvidia-device-plugin-daemonset"}, "nvidia-device-plugin", {})
            self._set_phase(OPERATOR, "Running")
        uid = plugin["metadata"]["uid"] if plugin else ""
        if uid != self._plugin_uid:  # it looks at the cards only at its start
            self._plugin_uid = uid
            self.offered = dict(enumerate_devices(self.machine.read(), Strategy.MIXED).resources) if uid else {}
        before = self.node.get("status", {}).get("allocatable") or {}
        amounts = {name: str(len(self.offered.get(name, ()))) for name in {*before, *self.offered}}
        self.kube.patch(NODE, self.name, {"status": {"allocatable": amounts}}, subresource="status")

    # -- the pod --

    @property
    def pod(self) -> dict[str, Any] | None:
        """The pod, also one that is leaving or not yet admitted."""
        return self._find(WORK)

    @property
    def open_to_pods(self) -> bool:
        """Whether the scheduler would bind a pod that wants a slice to this node."""
        node = self.node
        ready = any(c["status"] == "True" for c in node["status"]["conditions"])
        return ready and not node["spec"].get("unschedulable") and not node["spec"].get("taints")

    def bind_pod(self, resource: str) -> None:
        """The scheduler binds a pod that wants a slice of that kind."""
        self._start(WORK, {"node": self.name}, "c", {resource: "1"})

    def admit_pod(self, *, process: bool) -> None:
        """The kubelet gives the bound pod a device, or lets it fail; it may use the device at once, or later."""
        pod = self.pod
        if pod is None or self.running is not None:
            return
        (resource,) = pod["spec"]["containers"][0]["resources"]["limits"]
        there = {uuid: instance for instance, uuid in self._uuids()}
        device = next(iter(self.offered.get(resource, ())), None)
        instance = there.get(device or "")
        if device is None or instance is None:  # none is offered, or the plugin still offers what is gone
            self.kube.delete(POD, self.name, WORK, grace_s=0)
            return
        pid = self.machine.hold(0, gpu_instance=instance.id, compute_instance=0).pid if process else None
        self.running = Running(resource, device, instance.generation, pid)
        self._set_phase(WORK, "Running")

    def end_pod(self) -> None:
        """The pod's containers stop, and it is gone."""
        if self.running is not None and self.running.pid is not None:
            self.machine.free(pid=self.running.pid)
        self.running = None
        if self.pod is not None:
            self.kube.delete(POD, self.name, WORK, grace_s=0)

    def set_budget(self, *, closed: bool) -> None:
        """A PodDisruptionBudget forbids to evict the pod, or not any more."""
        name = f"pdb-{self.name}"
        if closed:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"node": self.name}}}
            self.people.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": name}, "spec": spec}, WORK)
        else:
            self.people.delete(POD_DISRUPTION_BUDGET, name, WORK)

    # -- people and faults --

    def cordon(self) -> None:
        """``kubectl cordon``; over a cordon of ours it changes nothing, so that wish cannot be seen."""
        self.persons_cordon = self.persons_cordon or not self.node["spec"].get("unschedulable")
        self.people.patch(NODE, self.name, {"spec": {"unschedulable": True}})

    def uncordon(self) -> None:
        """``kubectl uncordon``."""
        self.persons_cordon = False
        self.people.patch(NODE, self.name, {"spec": {"unschedulable": None}})

    def reboot(self) -> None:
        """No process and no slice survives, and the agent is gone too; the node is not Ready until told so."""
        self.actor.die()
        self.restart_agent()
        self.end_pod()
        self.machine.reboot()
        self._restart_plugin()
        self.set_ready(ready=False)

    def lose_slices(self) -> None:
        """Somebody deletes all slices by hand."""
        for instance in list(self.instances):
            self.machine.remove_instance(0, gpu_instance=instance.id)

    def recreate(self, *, other_machine: bool) -> None:
        """The Node is deleted and registered again under its name: its annotations, labels and cordon are gone."""
        if other_machine:
            self.actor.die()
            self.end_pod()
            self._machines += 1
            self.machine = Machine.create(None, ["A30"], mig=True, seed=f"{self.name}-{self._machines}")
            self.journal = ActorsJournal(self.actor)
            self.restart_agent()
            self._restart_plugin()
        self.persons_cordon = False
        self.people.delete(NODE, self.name)
        self.register()

    def _restart_plugin(self) -> None:
        if self._find(OPERATOR) is not None:
            self.kube.delete(POD, self.name, OPERATOR, grace_s=0)
        self.offered, self._plugin_uid = {}, ""

    def _uuids(self) -> Iterator[tuple[GpuInstanceState, str]]:
        births = {instance.id: instance for instance in self.instances}
        with installed(self.machine), NvmlGpus().session() as session:
            for found in session.cards()[0].instances:
                if found.compute:
                    yield births[found.id], found.compute[0].uuid

    def _start(self, namespace: str, labels: dict[str, str], container: str, limits: dict[str, str]) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "nodeName": self.name,
            "containers": [{"name": container, "resources": {"limits": limits}}],
        }
        if namespace == OPERATOR:
            spec["nodeSelector"] = {PLUGIN_GATE: "true"}
        return self.kube.create(POD, {"metadata": {"name": self.name, "labels": labels}, "spec": spec}, namespace)

    def _set_phase(self, namespace: str, phase: str) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
        self.kube.patch(POD, self.name, {"status": status}, namespace, subresource="status")

    def _find(self, namespace: str) -> dict[str, Any] | None:
        try:
            return self.people.get(POD, self.name, namespace)
        except NotFoundError:
            return None


@cache
def _clients() -> tuple[GpuClient, ...]:
    return load_clients()
