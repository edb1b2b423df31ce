"""A small kubelet: device plugins register with it, pods run on it, and PodResources tells who holds what.

Its directory is laid out as the real one's (``device-plugins/``, ``pod-resources/``), with real sockets, and beside
them is the node's ``proc/``, which tells to which pod a process on a card belongs. Everything that happens to pods
happens in ``sync``, which one thread at a time may call; sockets are served by threads of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import POD
from mig_manager.kube.podresources.values import PodDevices
from mig_manager.kube.port import Cluster, Object, PatchType
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node import clients, pod_spec, pod_status
from mig_manager.sim.node.admission import admit
from mig_manager.sim.node.device_manager import DeviceManager
from mig_manager.sim.node.pod_worker import PodWorker, Surroundings
from mig_manager.sim.node.podresources_server import PodResourcesServer
from mig_manager.sim.node.processes import Processes
from mig_manager.sim.node.program import Program
from mig_manager.sim.node.registration import Registry
from mig_manager.sim.node.topology import TopologyPolicy


def nothing(_: Object) -> bool:
    """No pod."""
    return False


class Kubelet:
    """The kubelet of the node ``name``, with its files under ``root``.

    Pods of which ``overlooks`` is true it does not see until they are admitted: that is the window in which a pod is
    bound, but nobody on the node knows of it.
    """

    def __init__(  # noqa: PLR0913 - keywords that describe a kubelet
        self,
        name: str,
        root: Path,
        *,
        machine: Machine,
        cluster: Cluster,
        clock: Callable[[], float],
        topology_policy: TopologyPolicy = TopologyPolicy.NONE,
    ) -> None:
        self.name = name
        self.device_plugins = root / "device-plugins"
        self.pod_resources = root / "pod-resources"
        self.proc = root / "proc"
        self.overlooks: Callable[[Object], bool] = nothing
        self.ip = "127.0.0.1"
        self.devices = DeviceManager(clock, name, topology_policy)
        self._cluster = cluster
        self._registry = Registry(self.device_plugins, self.devices)
        self._server: PodResourcesServer | None = None
        self._processes = Processes(machine, self.proc)
        programs = clients.programs(self._processes, self.device_plugins, clock)
        self._surroundings = Surroundings(self.devices, self._processes, programs, clock)
        self._workers: dict[str, PodWorker] = {}
        self._knows_pods = False
        self.device_plugins.mkdir(parents=True, exist_ok=True)
        self.pod_resources.mkdir(parents=True, exist_ok=True)

    @property
    def running(self) -> bool:
        """Whether it listens and looks after its pods."""
        return self._server is not None

    def start(self) -> None:
        """Come up: plugin sockets are wiped, ``kubelet.sock`` is new, devices are unknown until plugins register."""
        self.devices.restart()
        self._knows_pods = False
        self._registry.start()
        self._server = PodResourcesServer(
            self.pod_resources, self.active_pods, self.devices.healthy, self.devices.numa_nodes
        )

    def stop(self) -> None:
        """End the kubelet's process. Pods go on running, and what they hold is remembered."""
        self._registry.stop()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def end_leftovers(self) -> None:
        """End the processes of a former simulation of this machine, which nobody looks after any more."""
        self._processes.end_leftovers()

    def lose_power(self) -> None:
        """End every process of the node at once; only what was written to disk, the allocations, is remembered."""
        self.stop()
        for worker in self._workers.values():
            worker.kill()
        self._workers = {}

    def active_pods(self) -> list[PodDevices]:
        """The pods with running or not yet ended processes, and what they hold.

        None until the kubelet has heard of its pods after a start: the real one too answers for a second as if nobody
        held anything (seen on Kubernetes 1.36).
        """
        return [worker.held for worker in tuple(self._workers.values())] if self._knows_pods else []

    def restart_containers(self, namespace: str, name: str) -> None:
        """Let the containers of a pod restart with the devices they were given; KeyError when it does not run here."""
        workers = {worker.full_name: worker for worker in self._workers.values()}
        workers[f"{namespace}/{name}"].restart_containers()

    def programs(self) -> list[Program]:
        """The programs that run in the node's containers."""
        runs = [run for worker in self._workers.values() for run in worker.runs]
        return [run.program for run in runs if run.program is not None]

    def sync(self, pods: Sequence[Object]) -> None:
        """Look after ``pods``, all that are bound to this node now: admit, run, end, and report."""
        self._knows_pods = True
        bound = {pod_spec.uid(pod): pod for pod in pods}
        for uid, pod in bound.items():
            if uid not in self._workers:
                self._take(pod)
        for uid, worker in list(self._workers.items()):
            pod = bound.get(uid, worker.pod)
            if uid not in bound or pod_spec.is_leaving(pod):
                worker.leave(pod)
            worker.advance()
            if worker.ended:
                # Replaced, not changed: the PodResources server may be reading it.
                self._workers = {u: w for u, w in self._workers.items() if u != uid}
                if uid in bound:
                    self._remove(pod)
            elif uid in bound:
                self._report(pod, pod_status.of(worker, pod.get("status") or {}, self.ip))

    def _take(self, pod: Object) -> None:
        if pod_spec.is_leaving(pod):
            self._remove(pod)
            return
        if pod_spec.is_finished(pod) or self.overlooks(pod):
            return
        rejection = admit(pod, self.devices)
        if rejection is None:
            self._workers = {**self._workers, pod_spec.uid(pod): PodWorker(pod, self._surroundings)}
        else:
            self._report(pod, pod_status.rejected(rejection))

    def _report(self, pod: Object, status: Object) -> None:
        if not pod_status.differs(status, pod.get("status") or {}):
            return
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        # Gone, or another pod of the same name by now: nothing to report about.
        with contextlib.suppress(NotFoundError, ConflictError):
            self._cluster.patch(
                POD,
                metadata["name"],
                body,
                metadata["namespace"],
                subresource="status",
                patch_type=PatchType.STRATEGIC,
            )

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(NotFoundError, ConflictError):
            self._cluster.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_s=0)
