"""A cluster with the product on it and real nodes, and short words for what people do and see."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from mig_manager.gpu.proc import pod_uid_in
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import DAEMON_SET, MIG_CONFIG, MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.podresources.client import PodResources
from mig_manager.kube.port import Object
from mig_manager.sim.controlplane.access import Access, Endpoint
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import SERVICE_ADDRESS, ControlPlane
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, PLUGIN_DAEMON_SET, node_labels
from mig_manager.sim.node.plugin_devices import Strategy
from tests.conftest import CRDS
from tests.e2e.hosts import offered, ours, reason
from tests.e2e.recorder import Event, Recorder
from tests.e2e.waiting import until
from tests.node import images
from tests.node.audit import Audit
from tests.node.judging import beginning_at, judge
from tests.node.real import RealNode
from tests.node.room import ROOM
from tests.node.workloads import plugin_daemon_set, pod_spec, write_overlay

WORK = "work"
POOL = "node.example/pool"
CONFIG = "real"
PORT = 443
Slices = Mapping[str, int]


class RealCluster:
    """The cluster, its nodes by number, and what a test leaves on it."""

    def __init__(
        self, access: Access, programs: Programs, archives: list[Path], recorder: Recorder, audit: Audit
    ) -> None:
        self.access = access
        self.audit = audit
        self.person = KubernetesCluster.from_kubeconfig("kubectl", access.kubeconfig)
        self.nodes: list[RealNode] = []
        self._programs = programs
        self._archives = archives
        self._recorder = recorder
        self._numbers = itertools.count(1)

    # -- what there is --

    def new_node(self, *gpus: str, taints: Sequence[str] = (), numa: Sequence[int] = ()) -> RealNode:
        """Another node, which has yet to be started. ``numa`` is the NUMA node of each card."""
        labels = {**node_labels(Strategy.MIXED), POOL: "yes"}
        number = next(self._numbers)
        node = RealNode(number, self.access, self._programs, self._archives, labels, *gpus, taints=taints, numa=numa)
        self.nodes.append(node)
        return node

    def add_node(self, *gpus: str, numa: Sequence[int] = ()) -> RealNode:
        """Boot another node; it is Ready on return."""
        node = self.new_node(*gpus, numa=numa)
        node.start()
        self.until(f"{node.name} to be Ready", lambda: self.is_ready(node))
        return node

    def remove_node(self, node: RealNode) -> None:
        """Take a node away for good."""
        node.lose_power()
        self.nodes.remove(node)
        self.person.delete(NODE, node.name)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as administrator and return what it prints; it must succeed."""
        command = [str(find_kubectl()), f"--kubeconfig={self.access.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    # -- what people do --

    def config(self, profile: str, **spec: Any) -> None:  # noqa: ANN401 - a MIGConfig's spec
        """Create the MIGConfig of all real nodes."""
        body = {"nodeSelector": {"matchLabels": {POOL: "yes"}}, "profile": profile, **spec}
        self.person.create(MIG_CONFIG, {"metadata": {"name": CONFIG}, "spec": body})

    def edit(self, **spec: Any) -> None:  # noqa: ANN401 - a MIGConfig's spec
        """Change fields of the MIGConfig's spec."""
        self.person.patch(MIG_CONFIG, CONFIG, {"spec": spec})

    def pod(
        self, name: str, *resources: str, node: RealNode | None = None, labels: Mapping[str, str] | None = None
    ) -> None:
        """Create a pod that uses one of each resource, on a certain node or on any."""
        spec = pod_spec(*resources)
        if node is not None:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node.name}
        self.person.create(POD, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}, WORK)

    def deployment(self, name: str, replicas: int, *resources: str) -> None:
        """Create a Deployment of such pods."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod_spec(*resources)}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        status, answer = self.access.request(
            "POST", f"/apis/apps/v1/namespaces/{WORK}/deployments", {"metadata": {"name": name}, "spec": spec}
        )
        assert 201 == status, answer

    def budget(self, app: str, min_available: int) -> None:
        """A PodDisruptionBudget for the pods of an app; it has been counted on return."""
        spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
        body = {"apiVersion": "policy/v1", "metadata": {"name": app}, "spec": spec}
        self.person.create(POD_DISRUPTION_BUDGET, body, WORK)

        def counted() -> bool:
            status = self.person.get(POD_DISRUPTION_BUDGET, app, WORK).get("status", {})
            return bool(status.get("currentHealthy", 0) >= min_available)

        self.until("the budget to be counted", counted)

    # -- what is to be seen --

    def until(self, what: str, true: Callable[[], object]) -> None:
        """Wait for a condition."""
        until(what, true, explain=self.explain)

    def now(self) -> int:
        """The cluster's version; ``most_out`` and ``history`` count from there."""
        return max((event.version for event in self._recorder.history()), default=0)

    def history(self, since: int) -> list[Event]:
        """What has happened to Nodes, MIGNodes and pods since; it begins with how they were then."""
        return beginning_at(since, self._recorder.history())

    def judge(self, since: int) -> None:
        """AssertionError when a promise about nodes was broken since; call it when all is calm."""
        judge(self.history(since), [node.name for node in self.nodes])

    def most_out(self, since: int) -> int:
        """How many nodes were cordoned at the same time, at most."""
        out: set[str] = set()
        most = 0
        for event in self._recorder.history():
            if event.kind is NODE:
                cordoned = not event.deleted and event.body["spec"].get("unschedulable", False)
                out = out | {event.name} if cordoned else out - {event.name}
                most = max(most, len(out) if event.version > since else 0)
        return most

    def is_ready(self, node: RealNode) -> bool:
        """Whether the Node is Ready."""
        conditions = self.node(node).get("status", {}).get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def node(self, node: RealNode) -> Object:
        """The Node."""
        return self.person.get(NODE, node.name)

    def status(self, node: RealNode) -> dict[str, Any]:
        """The status of the MIGNode."""
        found: dict[str, Any] = self.person.get(MIG_NODE, node.name).get("status", {})
        return found

    def reason(self, node: RealNode) -> str:
        """Why the MIGNode is not Ready; ``Ready`` when it is."""
        return reason(self.status(node))

    def labels(self, node: RealNode) -> dict[str, str]:
        """The Node's labels that are ours."""
        return ours(self.node(node))

    def offered(self, node: RealNode) -> dict[str, int]:
        """What the Node says can be had, without zeros."""
        return offered(self.node(node))

    def finished(self, node: RealNode, slices: Slices) -> None:
        """Wait until the node has exactly these slices, offers and labels them, and nothing is being done there."""
        self.until(f"{node.name} to have {dict(slices)}", lambda: self._has(node, slices))

    def _has(self, node: RealNode, slices: Slices) -> bool:
        labels = self.labels(node)
        said = {k.removeprefix("mig-"): int(v) for k, v in labels.items() if k.startswith("mig-")}
        if node.counts() != slices or said != slices or labels.get("state") != "ready":
            return False
        if self.offered(node) != {f"mig-{name}": count for name, count in slices.items()}:
            return False
        free = self.status(node).get("grant", {}).get("state") == "Released"
        unschedulable = self.node(node)["spec"].get("unschedulable", False)
        return free and not unschedulable and self.reason(node) == "Ready"

    def pods(self, app: str, namespace: str = WORK) -> list[Object]:
        """The pods of an app that are not leaving."""
        found = self.person.list(POD, namespace, labels=f"app={app}").items
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def phase(self, name: str) -> str:
        """A pod's phase, ``Gone`` when there is no such pod."""
        try:
            return str(self.person.get(POD, name, WORK)["status"]["phase"])
        except NotFoundError:
            return "Gone"

    def running(self, *names: str) -> None:
        """Wait until these pods run and use their slices."""
        for name in names:
            self.until(f"{name} to run", partial(self._uses, name))

    def using(self, node: RealNode, app: str) -> int:
        """How many pods of an app use the node's cards."""
        return len({pod["metadata"]["uid"] for pod in self.pods(app)} & self.users(node))

    def users(self, node: RealNode) -> set[str]:
        """The UIDs of pods whose processes use the node's cards."""
        pids = {client.pid for card in node.machine.read().cards for client in card.clients}
        return {pod_uid_in(node.groups_of(pid)) for pid in pids}

    def _uses(self, name: str) -> bool:
        pod = self.person.get(POD, name, WORK)
        node = next((n for n in self.nodes if n.name == pod["spec"].get("nodeName")), None)
        return node is not None and self.phase(name) == "Running" and pod["metadata"]["uid"] in self.users(node)

    def held(self, node: RealNode) -> dict[str, tuple[str, ...]]:
        """The devices of every pod that has some, as PodResources lists them."""
        with PodResources(node.pod_resources) as client:
            return {p.name: tuple(i for d in p.devices for i in d.ids) for p in client.list() if p.devices}

    def plugin_pods(self, node: RealNode) -> list[Object]:
        """The device plugin's pods on a node that run."""
        pods = self.pods(PLUGIN_DAEMON_SET, OPERATOR_NAMESPACE)
        return [p for p in pods if p["spec"].get("nodeName") == node.name and p["status"]["phase"] == "Running"]

    def explain(self) -> str:
        """What a person would look at: objects in short, and the ends of the logs."""
        parts = [self.kubectl("get", "pods", "--all-namespaces", "--output=wide")]
        parts.append(self.kubectl("get", "migconfigs,mignodes", "--output=wide"))
        for node in self.nodes:
            parts.append(node.tail())
            with suppress(NotFoundError):
                body = self.node(node)
                parts.append(f"{node.name}: {body['spec']} {body['metadata'].get('annotations')} {self.labels(node)}")
                parts.append(f"  {node.counts()} {self.offered(node)}")
                parts.append(f"  {self.status(node)}")
        return "\n".join(parts)

    def clean(self) -> None:
        """Take away what a test has left: pods, budgets, and the MIGConfig, after which agents clean up."""
        for kind in ("deployments", "poddisruptionbudgets", "pods"):
            self.kubectl("--namespace", WORK, "delete", kind, "--all", "--wait=false")
        with suppress(NotFoundError):
            self.person.delete(MIG_CONFIG, CONFIG)
        for node in self.nodes:
            node.machine.clear_faults()
        self.until("no pods", lambda: not self.person.list(POD, WORK).items)
        self.until("no MIGNodes", lambda: not self.person.list(MIG_NODE).items)


@contextmanager
def real_cluster(programs: Programs) -> Iterator[RealCluster]:
    """A control plane in the room with the product and the device plugin deployed, and no node yet."""
    archives = [ROOM / "sandbox.tar", ROOM / "product.tar"]
    images.write_sandbox(archives[0])
    images.write_product(archives[1])
    overlay = write_overlay(ROOM / "overlay")
    audit = Audit(ROOM)
    endpoint = Endpoint(SERVICE_ADDRESS, PORT)
    with (
        ControlPlane(programs, CRDS, endpoint=endpoint, api_server_flags=audit.flags()) as plane,
        Recorder(plane.access) as recorder,
    ):
        cluster = RealCluster(plane.access, programs, archives, recorder, audit)
        for name in (OPERATOR_NAMESPACE, WORK):
            assert 201 == plane.access.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0]
        # The runtime that the NVIDIA Container Toolkit brings; here there is nothing for it to do.
        runtime = {"metadata": {"name": "nvidia"}, "handler": "runc"}
        assert 201 == plane.access.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)[0]
        cluster.kubectl("apply", "--server-side", "--kustomize", str(overlay))
        cluster.person.create(DAEMON_SET, plugin_daemon_set(), OPERATOR_NAMESPACE)
        try:
            yield cluster
        finally:
            for node in cluster.nodes:
                node.lose_power()
            cluster.person.close()
