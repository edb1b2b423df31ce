"""A simulated GPU node: its Node object, its kubelet, its machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mig_manager.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from mig_manager.kube.kinds import NODE, POD, Kind
from mig_manager.kube.port import Cluster, Object, PatchType
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.kubelet import Kubelet, nothing
from mig_manager.sim.node.plugin import DevicePlugin
from mig_manager.sim.node.pod_status import differs, timestamp
from mig_manager.sim.node.topology import TopologyPolicy

KUBELET_VERSION = "v1.36.3"
_CAPACITY = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110"}
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


class SimulatedNode:
    """One node. ``root`` is its kubelet's directory; ``labels`` and ``taints`` are what it registers with.

    Whatever happens to it happens under ``lock``, which a Fleet shares among its nodes, so that nothing happens in the
    middle of a pass.
    """

    def __init__(  # noqa: PLR0913 - what a node consists of
        self,
        name: str,
        root: Path,
        machine: Machine,
        cluster: Cluster,
        *,
        clock: Callable[[], float],
        lock: threading.RLock,
        labels: Mapping[str, str],
        taints: Sequence[Mapping[str, str]] = (),
        topology_policy: TopologyPolicy = TopologyPolicy.NONE,
    ) -> None:
        self.name = name
        self.root = root
        self.machine = machine
        self._cluster = cluster
        self._clock = clock
        self._lock = lock
        self._labels = dict(labels)
        self._taints = [dict(taint) for taint in taints]
        self._topology_policy = topology_policy
        self.kubelet = self._new_kubelet()

    def start(self) -> None:
        """Register the Node, or take over the one that is there, and start the kubelet.

        What a simulation that was killed left running on the machine ends first, as with a power failure.
        """
        with self._lock:
            self.kubelet.end_leftovers()
            self._register()
            self.kubelet.start()

    def stop(self) -> None:
        """End all processes and close all sockets; the Node object stays as it is."""
        with self._lock:
            self.kubelet.lose_power()

    def sync(self, node: Object | None, pods: Sequence[Object]) -> None:
        """Look after the pods bound here, then report; ``node`` is the Node as it is now, ``None`` when it is gone."""
        with self._lock:
            if not self.kubelet.running:
                return
            self.kubelet.sync(pods)
            if node is not None:
                self._report(self._status(node), node)

    # -- what can happen to a node --

    def hold_admission(self, which: Callable[[Object], bool] = lambda _: True) -> None:
        """Keep the kubelet from seeing pods that are bound from now on: all, or ``which``."""
        with self._lock:
            self.kubelet.overlooks = which

    def release_admission(self) -> None:
        """Let the kubelet see all pods again."""
        with self._lock:
            self.kubelet.overlooks = nothing

    def restart_kubelet(self) -> None:
        """Restart the kubelet: plugin sockets are wiped, running pods go on."""
        with self._lock:
            self.kubelet.stop()
            self.kubelet.start()

    def restart_containers(self, namespace: str, name: str) -> None:
        """Let the containers of a pod restart with the devices they were given; KeyError when it does not run here."""
        with self._lock:
            self.kubelet.restart_containers(namespace, name)

    def mark_unhealthy(self, device: str) -> None:
        """Let the device plugin find a device broken, until it starts anew; KeyError when no plugin offers it."""
        with self._lock:
            plugins = [p for p in self.kubelet.programs() if isinstance(p, DevicePlugin)]
            offered = {known: plugin for plugin in plugins for known in plugin.devices}
            offered[device].mark_unhealthy(device)

    def power_off(self) -> None:
        """Let the node go dark. Its Node says what the node lifecycle controller would after the grace period."""
        with self._lock:
            self.kubelet.lose_power()
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            ready = {"type": "Ready", "status": "Unknown", "reason": reason, "message": message}
            with contextlib.suppress(NotFoundError):
                node = self._cluster.get(NODE, self.name)
                self._report({"conditions": [_dated(ready, node)]}, node)

    def power_on(self) -> None:
        """Boot: a new boot id, no instances, and MIG mode only where the cards keep it."""
        with self._lock:
            self.machine.reboot()
            self.kubelet.start()

    def follow_reboot(self) -> None:
        """Go down with a machine that somebody else has rebooted, and come up with it."""
        with self._lock:
            self.kubelet.lose_power()
            self.kubelet.start()

    def reboot(self) -> None:
        """Go dark and boot again; the next pass reports it Ready."""
        with self._lock:
            self.power_off()
            self.power_on()

    def remove(self) -> None:
        """Take the node away: its processes end, Node and pods are deleted. ``start`` brings it back."""
        with self._lock:
            self.kubelet.lose_power()
            for pod in self._cluster.list(POD, fields=f"spec.nodeName={self.name}").items:
                self._delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
            self._delete(NODE, self.name)

    def recreate(self, machine: Machine | None = None) -> None:
        """Remove the node and register another of the same name, with the same or another machine.

        The new one has a new UID, and a new disk: nothing is remembered of the old one.
        """
        with self._lock:
            self.remove()
            self.machine = machine or self.machine
            self.kubelet = self._new_kubelet()
            self.start()

    def _delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        with contextlib.suppress(NotFoundError):
            self._cluster.delete(kind, name, namespace, grace_s=0)

    def _new_kubelet(self) -> Kubelet:
        return Kubelet(
            self.name,
            self.root,
            machine=self.machine,
            cluster=self._cluster,
            clock=self._clock,
            topology_policy=self._topology_policy,
        )

    def _register(self) -> None:
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        body: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {**labels, **self._labels}},
            "spec": {"taints": self._taints} if self._taints else {},
        }
        try:
            node = self._cluster.create(NODE, body)
        except AlreadyExistsError:
            node = self._cluster.patch(NODE, self.name, {"metadata": {"labels": body["metadata"]["labels"]}})
        self._report(self._status(node), node)

    def _status(self, node: Object) -> Object:
        counts = self.kubelet.devices.counts()
        state = self.machine.read()
        conditions = [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
            *({"type": p, "status": "False", "reason": "Kubelet", "message": "sufficient"} for p in _PRESSURES),
        ]
        return {
            "capacity": {**_CAPACITY, **{name: str(c.capacity) for name, c in counts.items()}},
            "allocatable": {**_CAPACITY, **{name: str(c.allocatable) for name, c in counts.items()}},
            "conditions": [_dated(condition, node) for condition in conditions],
            "addresses": [
                {"type": "InternalIP", "address": self.kubelet.ip},
                {"type": "Hostname", "address": self.name},
            ],
            "nodeInfo": {
                "machineID": state.seed,
                "systemUUID": state.seed,
                "bootID": state.boot_id,
                "kernelVersion": "6.1.0",
                "osImage": "simulated",
                "containerRuntimeVersion": "simulated://1",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        }

    def _report(self, status: Object, node: Object) -> None:
        if not differs(status, node.get("status") or {}):
            return
        body = {"metadata": {"uid": node["metadata"]["uid"]}, "status": status}
        # Deleted meanwhile, or another by now: this one has nobody to report to.
        with contextlib.suppress(NotFoundError, ConflictError):
            self._cluster.patch(NODE, self.name, body, subresource="status", patch_type=PatchType.STRATEGIC)


def _dated(condition: Object, node: Object) -> Object:
    """The condition with its times: both are kept while nothing changes, so that an idle node writes nothing."""
    for old in (node.get("status") or {}).get("conditions", ()):
        if old["type"] == condition["type"] and not differs(condition, old):
            return {**old}
    return {**condition, "lastHeartbeatTime": timestamp(), "lastTransitionTime": timestamp()}
