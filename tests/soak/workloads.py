"""Pods that use slices: of Deployments with PodDisruptionBudgets, of a Job, and bare ones."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mig_manager.kube.errors import BlockedError, ConflictError, NotFoundError
from mig_manager.kube.kinds import POD
from mig_manager.kube.port import Object
from mig_manager.sim.node.pod_spec import SHUTDOWN_SECONDS
from tests.e2e.plane import WORK, Plane

DEPLOYMENTS = {
    "mig-1g.10gb": 8,
    "mig-2g.20gb": 4,
    "mig-3g.40gb": 8,
    "mig-1g.6gb": 4,
    "mig-2g.12gb": 4,
}
"""Replicas by resource; half of them must stay available."""

JOB = "mig-1g.10gb"
JOB_PODS = 3
MOST_BARE = 16
AT_ONCE = 4


def budgets(nodes: int) -> list[tuple[dict[str, str], int]]:
    """The labels of a Deployment's pods, and how many of them must stay available."""
    return [(_labels(resource), replicas(resource, nodes) // 2) for resource in DEPLOYMENTS]


def replicas(resource: str, nodes: int) -> int:
    """As many pods as suit a fleet of that size: the figures above are for 20."""
    return max(2, DEPLOYMENTS[resource] * nodes // 20)


@dataclass
class Workloads:
    """Everything that uses slices. ``evicted`` are the pods that a person evicted, by name."""

    plane: Plane
    nodes: int
    evicted: set[str] = field(default_factory=set)
    _bare: int = 0

    def create(self) -> None:
        """Create Deployments, budgets and Job."""
        items: list[Any] = [item for resource in DEPLOYMENTS for item in self._deployment(resource)]
        file = self.plane.access.directory / "soak-workloads.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, _job()]}))
        self.plane.kubectl("--namespace", WORK, "apply", "--server-side", "--filename", str(file))

    def pods(self) -> list[Object]:
        """The pods that are there and not on their way out, by name."""
        found = [p for p in self.plane.person.list(POD, WORK).items if "deletionTimestamp" not in p["metadata"]]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def create_bare(self, pick: int) -> None:
        """A few more bare pods of one resource; finished ones, and the oldest of too many, are deleted."""
        names = list(DEPLOYMENTS)
        for _ in range(pick % AT_ONCE + 1):
            self._bare += 1
            name = f"bare-{self._bare:04}"
            body = {"metadata": {"name": name, **_template({"kind": "bare"})}, "spec": _pod(names[pick % len(names)])}
            self.plane.person.create(POD, body, WORK)
        bare = [pod for pod in self.pods() if pod["metadata"]["name"].startswith("bare-")]
        over = bare[: max(0, len(bare) - MOST_BARE)]
        for pod in bare:
            if pod in over or pod.get("status", {}).get("phase") == "Failed":
                self._delete(pod)

    def delete_one(self, pick: int) -> None:
        """Delete a pod."""
        pods = self.pods()
        if pods:
            self._delete(pods[pick % len(pods)])

    def evict_one(self, pick: int) -> None:
        """Evict a running pod, if its budget allows."""
        pods = [pod for pod in self.pods() if pod.get("status", {}).get("phase") == "Running"]
        if not pods:
            return
        metadata = pods[pick % len(pods)]["metadata"]
        with suppress(BlockedError, NotFoundError, ConflictError):
            self.plane.person.evict(WORK, metadata["name"], metadata["uid"])
            self.evicted.add(metadata["name"])

    def clear(self, node: str) -> None:
        """Delete what is on a node, as a person does who is told that it is in the way."""
        for pod in self.pods():
            if pod["spec"].get("nodeName") == node:
                self._delete(pod)

    def _delete(self, pod: Object) -> None:
        with suppress(NotFoundError):
            self.plane.person.delete(POD, pod["metadata"]["name"], WORK)

    def _deployment(self, resource: str) -> list[Any]:
        labels, count = _labels(resource), replicas(resource, self.nodes)
        metadata = {"name": labels["app"], "namespace": WORK}
        return [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": metadata,
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": _template(labels), "spec": _pod(resource)},
                },
            },
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata,
                "spec": {"minAvailable": count // 2, "selector": {"matchLabels": labels}},
            },
        ]


def _labels(resource: str) -> dict[str, str]:
    return {"app": resource.replace(".", "-")}


def _template(labels: dict[str, str]) -> Object:
    return {"labels": labels, "annotations": {SHUTDOWN_SECONDS: "0.3"}}


def _pod(resource: str) -> Object:
    limits = {f"nvidia.com/{resource}": "1"}
    return {"containers": [{"name": "main", "image": "work", "resources": {"limits": limits}}]}


def _job() -> Object:
    """A Job whose pods run until somebody ends them."""
    spec = {**_pod(JOB), "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "batch", "namespace": WORK},
        "spec": {
            "parallelism": JOB_PODS,
            "completions": 1000,
            "backoffLimit": 1000,
            "template": {"metadata": _template({"kind": "batch"}), "spec": spec},
        },
    }
