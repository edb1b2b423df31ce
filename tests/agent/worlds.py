"""A node with simulated cards, a kubelet, a device plugin and pods, on a cluster in memory; and agents that can die.

The kubelet and the plugin here are a few lines each and act only when ``tick`` is called, so that every pass of an
agent meets a world that stands still. The cards are the real NVML client on the simulated machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pynvml

from mig_manager.agent.agent import Agent
from mig_manager.agent.clients import load_clients
from mig_manager.agent.context import Memory, Ports, Settings
from mig_manager.agent.device_files import DeviceFilesError
from mig_manager.agent.names import CORDONED, KEPT, PAUSED, PAUSED_WORD
from mig_manager.agent.reconciler import Ending
from mig_manager.api.layout import layout_hash, layout_to_dict
from mig_manager.cli.machines import simulated_reset
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.state import Card
from mig_manager.gpu.holders import find_users
from mig_manager.gpu.journal import Journal, Record
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.proc import ProcTree
from mig_manager.kube.kinds import LEASE, MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.memory import Call, MemoryCluster, Store
from mig_manager.kube.podresources.client import KubeletUnreachableError
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.lookup import profile_of
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import CardState
from mig_manager.sim.node.plugin_devices import Enumeration, PluginCrash, Strategy, enumerate_devices
from mig_manager.sim.nvml import installed
from tests.agent.clock import FakeClock
from tests.agent.host_proc import FakeProc
from tests.agent.judge import InUse, Judge, foreign
from tests.agent.process import KilledError, Process, watched_steps
from tests.agent.spies import SpiedJournal, SpiedKubelet
from tests.chaos.counting import must
from tests.gpu.spied_library import SpiedLibrary

A100, A30, H100, SXM, T4 = "A100-PCIE-80GB", "A30", "H100-PCIE-80GB", "A100-SXM4-80GB", "T4"
NODE_NAME = "n1"
LEADER = "controller-1"
AGENT = "mig-manager-agent"
PLUGIN_GATE = "nvidia.com/gpu.deploy.device-plugin"
GATED = {"app": "nvidia-device-plugin-daemonset"}
UNGATED = {"name": "nvidia-device-plugin-ds"}
CLIENTS = load_clients()


@dataclass
class Running:
    """A pod that holds a device: which, and the process by which it does."""

    resource: str
    device: str
    pid: int
    card: str = ""
    birth: int = 0


class World:
    """One node and everything around it."""

    def __init__(  # noqa: PLR0913 - how nodes differ
        self,
        machine: Machine,
        path: Path,
        *,
        strategy: Strategy = Strategy.MIXED,
        gated: bool = True,
        plugin_tolerates: bool = False,
        plugin_says: str = "",
    ) -> None:
        self.machine, self.path, self.strategy = machine, path, strategy
        self.proc = FakeProc(path.parent / "proc", machine)
        self.clock = FakeClock()
        self.store = Store(now=self.clock.now)
        self.admin = MemoryCluster(self.store, "kubectl")
        self.kube = MemoryCluster(self.store, "kube")
        self.running: dict[str, Running] = {}
        self.offered: dict[str, tuple[str, ...]] = {}
        self.enumerated_by = ""
        self.kubelet_down = False
        self.admitting = True
        self.plugin_tolerates = plugin_tolerates
        self.plugin_variables = [{"name": "MIG_STRATEGY", "value": plugin_says}] if plugin_says else []
        self.gated = gated
        self.deleted: list[str] = []
        self.max_impact = "EvictPods"
        self.pulled: CardState | None = None
        self.reset_lies = False
        self.tools_fail = False
        self.can_reboot = True
        self.reboot_command: Callable[[Process], None] = self.power_cycle
        self.plays_daemon_set: Callable[[], None] = self._daemon_set
        self.enumerates: Callable[[], Enumeration] = self._enumerate
        self.reports: Callable[[], None] = self._report
        self.ends: Callable[[Mapping[str, Any]], bool] = lambda _: True
        self.reboots = 0
        self.persons_cordon = False
        self.process = Process()
        self.agent_memory = Memory()
        self.judge = Judge(self.store, NODE_NAME, AGENT)
        self._names = 0
        self.create_node()
        self.admin.create(
            LEASE, {"metadata": {"name": "controller"}, "spec": {"holderIdentity": LEADER}}, "mig-manager"
        )
        self.tick()

    # -- reading --

    @property
    def node(self) -> dict[str, Any]:
        """The Node, which is not to be changed: a copy at every look would take most of the time."""
        found = self.store.find((NODE, None, NODE_NAME))
        assert found is not None, "there is no Node"
        return found

    @property
    def labels(self) -> Mapping[str, str]:
        """Our labels on the Node, without the prefix."""
        labels = self.node["metadata"].get("labels") or {}
        return {k.partition("/")[2]: v for k, v in labels.items() if k.startswith("migmanager.io/")}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The Node's annotations."""
        return self.node["metadata"].get("annotations") or {}

    @property
    def mignode(self) -> dict[str, Any]:
        """The MIGNode, which is not to be changed either."""
        found = self.store.find((MIG_NODE, None, NODE_NAME))
        assert found is not None, "there is no MIGNode"
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The MIGNode's status."""
        return dict(self.mignode.get("status") or {})

    @property
    def grant_status(self) -> dict[str, Any]:
        """How far the grant has come."""
        return dict(self.status.get("grant") or {})

    @property
    def ready(self) -> tuple[str, str]:
        """Value and reason of the Ready condition."""
        return self.condition("Ready")

    def condition(self, kind: str) -> tuple[str, str]:
        """Value and reason of a condition."""
        found = next(c for c in self.status["conditions"] if c["type"] == kind)
        return found["status"], found["reason"]

    def shape(self) -> list[str]:
        """The cards' slices as the status shows them, from the machine."""
        found = []
        for card in self.machine.read().cards:
            names = [f"{profile_of(card, i)}@{i.start}" for i in sorted(card.instances, key=lambda i: i.start)]
            found.append(" ".join(names) if card.mig_current else "off")
        return found

    @property
    def journal(self) -> Record:
        """What the host file says."""
        return Journal(self.path).read()

    # -- the API --

    def create_node(self, labels: Mapping[str, str] | None = None, taints: Sequence[Mapping[str, str]] = ()) -> None:
        """Register the Node."""
        gate = {PLUGIN_GATE: "true"} if self.gated else {}
        body = {
            "metadata": {"name": NODE_NAME, "labels": {"kubernetes.io/hostname": NODE_NAME, **gate, **(labels or {})}},
            "spec": {"taints": list(taints)},
        }
        self.kube.create(NODE, body)
        self.set_ready(ready=True)

    def set_ready(self, *, ready: bool) -> None:
        """What the kubelet says about itself."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"conditions": [condition], "nodeInfo": {"bootID": self.machine.read().boot_id}}
        self.kube.patch(NODE, NODE_NAME, {"status": status}, subresource="status")

    def want(self, layout: Layout, *, profile: str = "p", **terms: object) -> None:
        """What the controller writes as desired; the MIGNode is made if there is none."""
        desired = {
            "config": "pool",
            "generation": 1,
            "profile": profile,
            "layout": layout_to_dict(layout),
            "hash": layout_hash(layout),
            "devicePluginStrategy": terms.get("strategy", "Auto"),
            "drain": terms.get("drain", {}),
        }
        spec = {"schema": 1, "nodeUID": self.node["metadata"]["uid"], "desired": desired}
        if self.has_mignode():
            self.admin.patch(MIG_NODE, NODE_NAME, {"spec": spec})
        else:
            self.admin.create(MIG_NODE, {"metadata": {"name": NODE_NAME}, "spec": spec})

    def has_mignode(self) -> bool:
        """Whether the MIGNode is there."""
        return self.store.find((MIG_NODE, None, NODE_NAME)) is not None

    def grant(self, *, slot: bool = True, **terms: object) -> int:
        """Grant what is desired, under the next id."""
        spec = self.mignode["spec"]
        desired = spec["desired"]
        grant_id = int((spec.get("grant") or {}).get("id", 0)) + 1
        grant: dict[str, object] = {
            "id": grant_id,
            "by": self.leader,
            "slot": slot,
            "revoked": False,
            "hash": desired["hash"],
            "profile": desired["profile"],
            "layout": desired["layout"],
            "devicePluginStrategy": desired["devicePluginStrategy"],
            "maxImpact": self.max_impact,
            "drain": desired["drain"],
        }
        self.admin.patch(MIG_NODE, NODE_NAME, {"spec": {"grant": grant | terms}})
        return grant_id

    @property
    def leader(self) -> str:
        """The controller that holds the Lease."""
        return str(self.admin.get(LEASE, "controller", "mig-manager")["spec"]["holderIdentity"])

    def lose_lease(self, leader: str = "controller-2") -> None:
        """Another controller leads from now on."""
        self.admin.patch(LEASE, "controller", {"spec": {"holderIdentity": leader}}, "mig-manager")

    def revoke(self) -> None:
        """Revoke the grant."""
        self.admin.patch(MIG_NODE, NODE_NAME, {"spec": {"grant": {"revoked": True}}})

    def leave_pool(self) -> None:
        """The MIGConfig is deleted, or the node does not match any more."""
        spec: dict[str, Any] = {"desired": None}
        if self.mignode["spec"].get("grant"):
            spec["grant"] = {"revoked": True}
        self.admin.patch(MIG_NODE, NODE_NAME, {"spec": spec})

    def control(self) -> None:
        """A controller with one node: grants what is planned and not there, revokes nothing, respects notBefore."""
        if not self.has_mignode():
            return
        spec, status = self.mignode["spec"], self.status
        desired, grant, state = spec.get("desired"), spec.get("grant"), self.grant_status
        plan = status.get("plan") or {}
        if desired is None or plan.get("hash") != desired["hash"] or "impact" not in plan or plan.get("reason"):
            return
        in_place = plan["impact"] == "None" and not plan["create"] and not plan["destroy"]
        current = grant is not None and grant["hash"] == desired["hash"] and not grant.get("revoked")
        if current and (state.get("id") != grant["id"] or state["state"] != "Released" or in_place):
            return
        if state.get("state") in ("Held", "Repairing") and current:
            return
        rest = state.get("notBefore")
        if current and rest is not None and self.clock.now() < datetime.fromisoformat(rest):
            return
        self.grant(slot=state.get("state") == "Held" or not in_place)

    def cordon(self) -> None:
        """Somebody cordons the node with kubectl."""
        self.persons_cordon = True
        self.admin.patch(NODE, NODE_NAME, {"spec": {"unschedulable": True}})

    def uncordon(self) -> None:
        """Somebody uncordons the node with kubectl."""
        self.persons_cordon = False
        self.admin.patch(NODE, NODE_NAME, {"spec": {"unschedulable": None}})

    def budget(self, labels: Mapping[str, str], minimum: int = 1, name: str = "pdb") -> None:
        """A PodDisruptionBudget."""
        spec = {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}}
        self.admin.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": name}, "spec": spec}, "default")

    # -- pods and kubelet --

    def pod(
        self,
        name: str,
        resource: str = "nvidia.com/mig-1g.10gb",
        *,
        labels: Mapping[str, str] | None = None,
        device: str = "",
        owner: str = "ReplicaSet",
        **spec: object,
    ) -> None:
        """A pod bound to the node; it is admitted, with a device, unless admission is held up."""
        body = {
            "metadata": {"name": name, "labels": dict(labels or {}), "ownerReferences": owned_by(owner)},
            "spec": {
                "nodeName": NODE_NAME,
                "containers": [{"name": "c", "resources": {"limits": {resource: "1"}}}],
                **spec,
            },
        }
        self.kube.create(POD, body, "default")
        if self.admitting:
            self.admit(name, resource, device)

    def admit(self, name: str, resource: str = "nvidia.com/mig-1g.10gb", device: str = "") -> None:
        """What the kubelet does with a new pod: give it a device and let it run, or fail it."""
        free = [d for d in self.offered.get(resource, ()) if d not in {r.device for r in self.running.values()}]
        if not free:
            self.kube.patch(POD, name, {"status": {"phase": "Failed"}}, "default", subresource="status")
            return
        chosen = device or free[0]
        self.hold(f"default/{name}", resource, chosen)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.kube.patch(POD, name, {"status": status}, "default", subresource="status")

    def hold(self, name: str, resource: str, device: str) -> None:
        """A process of that pod uses the device."""
        namespace, _, pod = name.partition("/")
        uid = self.admin.get(POD, pod, namespace)["metadata"]["uid"]
        for card, gi, ci, uuid, birth in self.slices():
            if uuid == device:
                client = self.machine.hold(card, gpu_instance=gi, compute_instance=ci, name="python")
                self.running[name] = Running(resource, device, client.pid, card, birth)
                self.proc.add(client.pid, "python", self.proc.files(card, gi, ci), pod_uid=uid)
                return
        client = self.machine.hold(device, name="python")
        self.running[name] = Running(resource, device, client.pid)
        self.proc.add(client.pid, "python", self.proc.files(device), pod_uid=uid)

    def slices(self) -> Iterator[tuple[str, int, int, str, int]]:
        """Card, GPU instance, compute instance, UUID and birth number of every slice."""
        for card in self.machine.read().cards:
            for instance in card.instances:
                for compute in instance.compute:
                    uuid = mig_uuid(card.uuid, instance.id, compute.id)
                    yield card.uuid, instance.id, compute.id, uuid, instance.generation

    def device_at(self, gpu: int, start: int) -> str:
        """The UUID of the slice that begins there."""
        card = self.machine.card(gpu)
        instance = next(i for i in card.instances if i.start == start)
        return mig_uuid(card.uuid, instance.id, instance.compute[0].id)

    def end(self, name: str) -> None:
        """A pod comes to its end by itself."""
        self._stop(f"default/{name}")
        self.kube.delete(POD, name, "default", grace_s=0)

    def tick(self, seconds: float = 1.0) -> None:
        """Let everybody else act: leaving pods end if they may, the DaemonSet follows the gate, the kubelet reports."""
        self.clock.sleep(seconds)
        for pod in self.kube.list(POD).items:
            if "deletionTimestamp" in pod["metadata"] and self.ends(pod):
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                self._stop(name)
                self.kube.end_pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
                self.deleted.append(name)
        if self._node_exists():
            self.plays_daemon_set()
            self.reports()

    def _node_exists(self) -> bool:
        return bool(self.admin.list(NODE).items)

    def plugin(self) -> dict[str, Any] | None:
        """The plugin's pod."""
        pods = self.kube.list(POD, "gpu-operator").items
        return next((p for p in pods if p["metadata"]["name"].startswith("plugin-")), None)

    def _daemon_set(self) -> None:
        node, pod = self.node, self.plugin()
        taints = {t["key"] for t in node["spec"].get("taints", ())}
        gate = (node["metadata"].get("labels") or {}).get(PLUGIN_GATE)
        wanted = (gate == "true" if self.gated else True) and (self.plugin_tolerates or not taints)
        if pod is not None and self.gated and gate != "true":
            self.kube.delete(POD, pod["metadata"]["name"], "gpu-operator", grace_s=0)
            pod = None
        elif pod is None and wanted:
            self._names += 1
            body = {
                "metadata": {
                    "name": f"plugin-{self._names}",
                    "labels": GATED if self.gated else UNGATED,
                    "ownerReferences": owned_by("DaemonSet"),
                },
                "spec": {
                    "nodeName": NODE_NAME,
                    "containers": [{"name": "nvidia-device-plugin", "env": self.plugin_variables}],
                    "tolerations": [{"operator": "Exists"}] if self.plugin_tolerates else [],
                    "nodeSelector": {PLUGIN_GATE: "true"} if self.gated else {},
                },
            }
            pod = self.kube.create(POD, body, "gpu-operator")
            running = {"startedAt": f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"}
            status = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "nvidia-device-plugin", "state": {"running": running}}],
            }
            self.kube.patch(POD, pod["metadata"]["name"], {"status": status}, "gpu-operator", subresource="status")
        uid = pod["metadata"]["uid"] if pod else ""
        if uid != self.enumerated_by:
            # The plugin looks at the cards only at its start.
            self.enumerated_by = uid
            self.offered = self.enumerates().resources if uid else {}

    def _enumerate(self) -> Enumeration:
        try:
            return enumerate_devices(self.machine.read(), self.strategy)
        except PluginCrash:
            return Enumeration()

    def _report(self) -> None:
        before = self.node.get("status", {}).get("allocatable") or {}
        names = {n for n in before if n.startswith(("nvidia.com/",))} | set(self.offered)
        amounts = {name: str(len(self.offered.get(name, ()))) for name in names}
        self.kube.patch(NODE, NODE_NAME, {"status": {"allocatable": amounts}}, subresource="status")

    def kubelet_list(self) -> tuple[PodDevices, ...]:
        """PodResources List."""
        self._answer()
        return tuple(
            PodDevices(
                name.partition("/")[0],
                name.partition("/")[2],
                (ContainerDevices("c", (Devices(r.resource, (r.device,)),)),),
            )
            for name, r in sorted(self.running.items())
        )

    def kubelet_allocatable(self) -> tuple[Devices, ...]:
        """PodResources GetAllocatableResources."""
        self._answer()
        return tuple(Devices(resource, ids) for resource, ids in sorted(self.offered.items()))

    def _answer(self) -> None:
        if self.kubelet_down:
            raise KubeletUnreachableError("asking the kubelet: nobody listens")

    def _stop(self, name: str) -> None:
        running = self.running.pop(name, None)
        if running is not None:
            self.machine.free(pid=running.pid)
            self.proc.remove(running.pid)

    # -- machine --

    def reboot(self) -> None:
        """The machine restarts: no process and no slice survives, the plugin starts anew."""
        self.machine.reboot()
        self.judge.stand_by(self.machine.read(), *self.judge.bystanders)
        for name in list(self.running):
            self.proc.remove(self.running.pop(name).pid)
            namespace, _, pod = name.partition("/")
            self.kube.delete(POD, pod, namespace, grace_s=0)
        plugin = self.plugin()
        if plugin is not None:
            self.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
        self.set_ready(ready=True)
        self.tick()

    def reload_driver(self) -> None:
        """The driver is loaded anew, which it is only while nobody uses a card."""
        self.machine.reload_driver()
        self.judge.stand_by(self.machine.read(), *self.judge.bystanders)

    def pull(self, gpu: int) -> None:
        """A card vanishes from the bus."""
        self.pulled = self.machine.remove_card(gpu)

    def push_back(self, gpu: int) -> None:
        """The card that was pulled is there again, without the slices that it had."""
        assert self.pulled is not None
        self.pulled.instances.clear()
        with self.machine.change() as state:
            state.cards.insert(gpu, self.pulled)

    def replace_node(self) -> None:
        """The Node is deleted and registers again under the same name: annotations, labels and cordon are gone."""
        self.admin.delete(NODE, NODE_NAME)
        self.persons_cordon = False
        self.create_node()

    def reset(self, cards: Sequence[Card], process: Process | None = None) -> None:
        """What nvidia-smi -r does."""
        process = process or self.process
        process.point("reset")
        if not self.reset_lies:
            simulated_reset(self.machine)(cards)
        process.point("reset done")

    def device_files(self, process: Process) -> None:
        """What the driver's tools do."""
        process.point("device files")
        if self.tools_fail:
            raise DeviceFilesError("nvidia-modprobe failed with exit code 1: no")

    def power_cycle(self, process: Process) -> None:
        """What the command that reboots the node does: whatever runs on it is dead afterwards."""
        process.point("reboot")
        self.reboots += 1
        self.reboot()
        raise KilledError

    # -- agents --

    @contextmanager
    def agent(self, process: Process | None = None, **settings: Any) -> Iterator[Agent]:  # noqa: ANN401 - Settings
        """An agent process on this node."""
        process = process or self.process

        def before(call: Call) -> None:
            process.point(f"{call.verb} {call.kind.name}")
            process.request(f"{call.verb} {call.kind.name}", answered=False)
            self.judge.before(call)

        def after(call: Call) -> None:
            self.judge.after(call)
            process.point(f"{call.verb} {call.kind.name} done")
            process.request(f"{call.verb} {call.kind.name}", answered=True)

        with installed(self.machine, self.clock.sleep), watched_steps(process):
            pynvml.nvmlLib = SpiedLibrary(pynvml.nvmlLib, process.point, only_changing=True)
            ports = Ports(
                cluster=MemoryCluster(self.store, AGENT, before, after),
                gpus=NvmlGpus(),
                pod_resources=SpiedKubelet(self, process),
                journal=SpiedJournal(self.path, process),
                clock=self.clock,
                users=find_users(ProcTree(self.proc.root)),
                reset=lambda cards: self.reset(cards, process),
                device_files=lambda: self.device_files(process),
                boot_id=lambda: self.machine.read().boot_id,
                reboot=(lambda: self.reboot_command(process)) if self.can_reboot else None,
            )
            defaults = Settings(NODE_NAME, CLIENTS, "controller", "mig-manager")
            yield Agent(ports, Settings(**{**_fields(defaults), **settings}), self.agent_memory)

    def run_pass(self, process: Process | None = None) -> Ending:
        """One pass."""
        with self.agent(process) as agent:
            return agent.run_pass()

    def settle(self, passes: int = 60, *, control: bool = False, seconds: float = 1.0) -> list[str]:
        """Passes, with everybody else acting in between, until one ends without waiting; the steps where they ended."""
        ended = []
        for _ in range(passes):
            if control:
                self.control()
            ending = self.run_pass()
            ended.append(f"{ending.step}: {getattr(ending.result, 'reason', 'Done')}")
            if ended[-1].endswith("Done"):
                return ended
            self.tick(seconds)
        return ended

    # -- invariants --

    def check(self) -> None:
        """What must hold at every moment."""
        used = (InUse(name, r.card, r.birth) for name, r in self.running.items() if r.card)
        self.judge.look(self.machine.read(), used)
        if self._node_exists() and self.persons_cordon:
            must(self.node["spec"].get("unschedulable"), "a person's cordon was lifted")

    def assert_clean(self) -> None:
        """Nothing of ours is left on the node, and what is not ours is as it was."""
        must(not {CORDONED, KEPT, PAUSED} & set(self.annotations), "a record of ours is left")
        must(PAUSED_WORD not in (self.node["metadata"].get("labels") or {}).values(), "a client is left paused")
        cordoned = bool(self.node["spec"].get("unschedulable"))
        must(self.persons_cordon == cordoned, f"cordoned: {cordoned}, wanted by a person: {self.persons_cordon}")
        must(self.journal.intent is None, "an intent is left")
        taints = [t["key"] for t in self.node["spec"].get("taints", ())]
        must("migmanager.io/repartitioning" not in taints, "our taint is left")

    def assert_as_registered(self) -> None:
        """Labels and annotations of others are those with which the Node was registered."""
        uid = self.node["metadata"]["uid"]
        versions = [v.body for v in self.store.history(NODE, NODE_NAME) if v.body is not None]
        born = next(body for body in versions if body["metadata"]["uid"] == uid)
        for what in ("labels", "annotations"):
            then, now = (foreign(body["metadata"].get(what) or {}) for body in (born, self.node))
            must(then == now, f"{what} of others are {now}, and were {then}")


def owned_by(kind: str) -> list[dict[str, object]]:
    """What stands in a pod that a workload of that kind controls; nothing for a bare one."""
    version = {"Job": "batch/v1"}.get(kind, "apps/v1")
    reference = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "owner-uid", "controller": True}
    return [reference] if kind else []


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}
