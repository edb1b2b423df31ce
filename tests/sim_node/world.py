"""A cluster in memory with simulated nodes, and short words for what tests do to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import DAEMON_SET, NODE, POD
from mig_manager.kube.memory import MemoryCluster, Store
from mig_manager.kube.podresources.client import PodResources
from mig_manager.kube.podresources.values import Devices, PodDevices
from mig_manager.kube.port import Cluster, Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, PLUGIN_DAEMON_SET, device_plugin_daemon_set
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.node import SimulatedNode
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.topology import TopologyPolicy

DEADLINE_S = 20.0
SMALL = "nvidia.com/mig-1g.10gb"
LARGE = "nvidia.com/mig-3g.40gb"


@dataclass
class FakeClock:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        """The present."""
        return self.now


def until(what: str, true: Callable[[], bool]) -> None:
    """Poll until something is true; gRPC threads need a moment."""
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.005)


def container(name: str = "main", *, restart: str | None = None, **limits: int) -> dict[str, Any]:
    """A container; a limit is named by profile, with ``_`` for ``.``: ``_1g_10gb=1``, or ``gpu=1``."""
    names = {k: "nvidia.com/gpu" if k == "gpu" else f"nvidia.com/mig-{k.strip('_').replace('_', '.')}" for k in limits}
    amounts = {names[k]: str(v) for k, v in limits.items()}
    spec: dict[str, Any] = {"name": name, "image": "work", "resources": {"limits": amounts, "requests": amounts}}
    return {**spec, "restartPolicy": restart} if restart else spec


@dataclass
class World:
    """Everything of one test. Time stands still unless ``clock.now`` is changed."""

    clock: FakeClock = field(default_factory=FakeClock)
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        self.cluster: Cluster = MemoryCluster(self.store, "kubelet")
        self.fleet = Fleet(self.cluster, clock=self.clock, plays_daemon_sets=True)

    def machine(self, *gpus: str, mig: bool = True, seed: str = "0") -> Machine:
        """A machine in memory."""
        return Machine.create(None, gpus or ["A100-SXM4-80GB"], mig=mig, seed=seed)

    def node(
        self,
        machine: Machine,
        strategy: Strategy = Strategy.MIXED,
        *,
        name: str = "n1",
        taints: Sequence[Mapping[str, str]] = (),
        topology_policy: TopologyPolicy = TopologyPolicy.NONE,
    ) -> SimulatedNode:
        """A node with a device plugin that is to run on it."""
        node = self.fleet.add(name, machine, strategy=strategy, taints=taints, topology_policy=topology_policy)
        if not self.cluster.list(DAEMON_SET).items:
            self.cluster.create(DAEMON_SET, device_plugin_daemon_set(strategy), OPERATOR_NAMESPACE)
        return node

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Make passes until something is true."""

        def passed() -> bool:
            self.fleet.sync()
            return true()

        until(what, passed)

    def until_allocatable(self, expected: Mapping[str, int], node: str = "n1") -> None:
        """Make passes until the Node shows exactly these devices, resources with none left out."""
        self.until(f"allocatable {expected} of {node}", lambda: self.allocatable(node) == expected)

    def allocatable(self, node: str = "n1") -> dict[str, int]:
        """What the Node's allocatable says of devices, zeros left out."""
        return {k: v for k, v in self.devices("allocatable", node).items() if v}

    def devices(self, kind: str, node: str = "n1") -> dict[str, int]:
        """What the Node's ``capacity`` or ``allocatable`` says of devices."""
        status = self.cluster.get(NODE, node)["status"]
        return {k: int(v) for k, v in status[kind].items() if k.startswith("nvidia.com/")}

    def pod(
        self,
        name: str,
        *containers: Mapping[str, Any],
        node: str = "n1",
        init: Sequence[Mapping[str, Any]] = (),
        annotations: Mapping[str, str] | None = None,
        grace_s: int = 30,
    ) -> Object:
        """Bind a pod to a node, as the scheduler does."""
        return self.cluster.create(
            POD,
            {
                "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations or {})},
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": grace_s,
                    "containers": list(containers),
                    "initContainers": list(init),
                },
            },
            "default",
        )

    def phase(self, name: str) -> str:
        """A pod's phase, ``Gone`` when there is no such pod."""
        try:
            return str(self.cluster.get(POD, name, "default")["status"]["phase"])
        except NotFoundError:
            return "Gone"

    def status(self, name: str) -> Object:
        """A pod's status."""
        status: Object = self.cluster.get(POD, name, "default")["status"]
        return status

    def until_phase(self, name: str, phase: str) -> None:
        """Make passes until a pod is in that phase."""
        self.until(f"{name} {phase}", lambda: self.phase(name) == phase)

    def plugin_pods(self) -> list[Object]:
        """The pods of the device plugin."""
        return list(self.cluster.list(POD, OPERATOR_NAMESPACE, labels=f"app={PLUGIN_DAEMON_SET}").items)

    def ask(self, node: str = "n1") -> PodResources:
        """The PodResources client for a node; close it."""
        return PodResources(self.fleet[node].root / "pod-resources" / "kubelet.sock")

    def listed(self, node: str = "n1") -> dict[str, PodDevices]:
        """What PodResources lists, by pod name."""
        with self.ask(node) as client:
            return {pod.name: pod for pod in client.list()}

    def held(self, pod: str, node: str = "n1") -> tuple[Devices, ...]:
        """What PodResources says a pod holds."""
        return self.listed(node)[pod].devices

    def offered(self, node: str = "n1") -> set[str]:
        """The device ids that the kubelet would give out."""
        with self.ask(node) as client:
            return {device for devices in client.allocatable() for device in devices.ids}


def open_sockets(directory: Path) -> list[Path]:
    """Every file below a directory that is a socket."""
    return sorted(p for p in directory.rglob("*") if p.is_socket())
