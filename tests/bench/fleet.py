"""A thousand Nodes that exist in the API only, and one who answers for all their agents, in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import MIG_NODE, NODE
from mig_manager.kube.port import Object
from mig_manager.sim.node.clients import node_labels
from mig_manager.sim.node.plugin_devices import Strategy
from tests.bench.site import POOL

THREADS = 8


class Crowd:
    """``count`` Nodes of the pool ``pool``. ``like`` is the status of a real agent's MIGNode, which all will report."""

    def __init__(self, cluster: KubernetesCluster, pool: str, count: int, like: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._pool = pool
        self._like = like
        self.names = [f"{pool}-{number}" for number in range(count)]

    def create(self) -> None:
        """Register the Nodes, Ready."""
        _all(self._register, self.names)

    def answer(self) -> int:
        """Report for all whose spec has not been answered yet, as agents on finished nodes would; how many MIGNodes."""
        names = set(self.names)
        found = [m for m in self._cluster.list(MIG_NODE).items if m["metadata"]["name"] in names]
        behind = [m for m in found if m.get("status", {}).get("observedGeneration") != m["metadata"]["generation"]]
        _all(self._report, behind)
        return len(found)

    def _register(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name, **node_labels(Strategy.MIXED), POOL: self._pool}
        self._cluster.create(NODE, {"metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        self._cluster.patch(NODE, name, {"status": {"conditions": [ready]}}, subresource="status")

    def _report(self, mignode: Object) -> None:
        spec = mignode["spec"]
        status = {key: value for key, value in self._like.items() if key != "grant"}
        status["observedGeneration"] = mignode["metadata"]["generation"]
        status["plan"] = {"hash": spec["desired"]["hash"], "impact": "None", "keep": 2, "create": 0, "destroy": 0}
        if "grant" in spec:
            status["grant"] = {"id": spec["grant"]["id"], "state": "Released", "result": "Applied"}
        with suppress(NotFoundError, ConflictError):
            self._cluster.patch(MIG_NODE, mignode["metadata"]["name"], {"status": status}, subresource="status")


def _all(work: Any, items: Iterable[Any]) -> None:  # noqa: ANN401 - one argument of any kind
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, items))
