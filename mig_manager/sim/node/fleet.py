"""Many simulated nodes in one process.

One pass lists Nodes and pods once, whatever the number of nodes, and lets every node look after its own. Tests call
``sync`` themselves or wait with a condition; the demo lets a thread do it.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from mig_manager.kube.errors import ConflictError, TooManyRequestsError, UnavailableError
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.port import Cluster, Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import node_labels
from mig_manager.sim.node.daemon_sets import DaemonSets
from mig_manager.sim.node.node import SimulatedNode
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.topology import TopologyPolicy

INTERVAL_S = 0.2
_log = logging.getLogger(__name__)


class Fleet:
    """Simulated nodes of one cluster; a context manager that leaves no thread, socket or file behind.

    ``cluster`` must be allowed what kubelets are. ``plays_daemon_sets`` is for clusters without a controller manager.
    ``directory`` holds a subdirectory for every node and should have a short name, because of the sockets in it;
    without it a temporary one is made.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        plays_daemon_sets: bool = False,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="mig-nodes-"))
        self._daemon_sets = DaemonSets(cluster) if plays_daemon_sets else None
        self._nodes: dict[str, SimulatedNode] = {}
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def add(  # noqa: PLR0913 - keywords that describe a node
        self,
        name: str,
        machine: Machine,
        *,
        strategy: Strategy = Strategy.MIXED,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        topology_policy: TopologyPolicy = TopologyPolicy.NONE,
    ) -> SimulatedNode:
        """Start another node. ``labels`` come on top of those that the GPU operator gives a node.

        ``topology_policy`` is its kubelet's.

        ValueError when there is one of that name already.
        """
        with self._lock:
            if name in self._nodes:
                raise ValueError(f"there is a simulated node {name} already")
            node = SimulatedNode(
                name,
                self.directory / str(len(self._nodes)),
                machine,
                self._cluster,
                clock=self._clock,
                lock=self._lock,
                labels={**node_labels(strategy), **(labels or {})},
                taints=taints,
                topology_policy=topology_policy,
            )
            self._nodes[name] = node
            node.start()
            return node

    def __getitem__(self, name: str) -> SimulatedNode:
        return self._nodes[name]

    def sync(self) -> None:
        """One pass over all nodes; ClusterError when the API does not answer."""
        with self._lock:
            nodes = {node["metadata"]["name"]: node for node in self._cluster.list(NODE).items}
            if self._daemon_sets is not None:
                self._daemon_sets.sync(node for name, node in nodes.items() if name in self._nodes)
            pods: dict[str, list[Object]] = defaultdict(list)
            for pod in self._cluster.list(POD, fields="spec.nodeName!=").items:
                pods[pod["spec"]["nodeName"]].append(pod)
            for name, node in self._nodes.items():
                node.sync(nodes.get(name), pods[name])

    def run(self, interval_s: float = INTERVAL_S) -> None:
        """Let a thread make a pass every ``interval_s`` seconds until ``stop``."""
        self._thread = threading.Thread(target=self._run, args=(interval_s,), name="simulated nodes", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread of ``run`` is at work."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End everything; raise what ended the thread early, if something did."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            for node in self._nodes.values():
                node.stop()
            self._nodes = {}
        if self._own_directory:
            shutil.rmtree(self.directory)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, interval_s: float) -> None:
        while not self._ending.wait(interval_s):
            try:
                self.sync()
            except (UnavailableError, TooManyRequestsError, ConflictError) as error:
                _log.warning("simulated nodes: %s; trying again", error)
            except Exception as error:  # noqa: BLE001 - whatever ends the thread is raised by stop()
                self._failure = error
                return
