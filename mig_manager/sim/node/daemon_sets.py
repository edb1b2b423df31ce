"""What the DaemonSet controller does, for clusters that have none: the one in memory.

The rules are those of NodeShouldRunDaemonPod (pkg/controller/daemon): a taint NoSchedule keeps a new pod away and lets
a running one be; another label or a taint NoExecute ends it. A terminating pod still counts, so its successor comes
when it is gone.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import DAEMON_SET, POD
from mig_manager.kube.port import Cluster, Object
from mig_manager.sim.node import pod_spec

# Tolerations that the controller adds to every pod (AddOrUpdateDaemonPodTolerations).
_OWN_TOLERATIONS = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)


class DaemonSets:
    """Keeps one pod of every DaemonSet on every node that fits."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def sync(self, nodes: Iterable[Object]) -> None:
        """Create and delete pods so that they are where they should be."""
        nodes = list(nodes)
        pods: dict[tuple[str, str], list[Object]] = defaultdict(list)
        for pod in self._cluster.list(POD).items:
            for owner in pod["metadata"].get("ownerReferences", ()):
                pods[owner["uid"], pod["spec"].get("nodeName", "")].append(pod)
        for daemon_set in self._cluster.list(DAEMON_SET).items:
            for node in nodes:
                self._sync(daemon_set, node, pods[daemon_set["metadata"]["uid"], node["metadata"]["name"]])

    def _sync(self, daemon_set: Object, node: Object, pods: list[Object]) -> None:
        spec = daemon_set["spec"]["template"]["spec"]
        fits = _selected(spec, node)
        for pod in pods:
            unwanted = not (fits and _tolerates(spec, node, {"NoExecute"})) or pod_spec.is_finished(pod)
            if unwanted and not pod_spec.is_leaving(pod):
                self._delete(pod)
        if not pods and fits and _tolerates(spec, node, {"NoExecute", "NoSchedule"}):
            self._create(daemon_set, node["metadata"]["name"])

    def _create(self, daemon_set: Object, node: str) -> None:
        metadata, template = daemon_set["metadata"], daemon_set["spec"]["template"]
        owner = {
            "apiVersion": DAEMON_SET.api_version,
            "kind": DAEMON_SET.name,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        tolerations = [*template["spec"].get("tolerations", ()), *_OWN_TOLERATIONS]
        pod = {
            "apiVersion": POD.api_version,
            "kind": POD.name,
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{metadata['name']}-{uuid4().hex[:8]}",
                "namespace": metadata["namespace"],
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "tolerations": tolerations, "nodeName": node},
        }
        self._cluster.create(POD, pod, metadata["namespace"])

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        # Gone already, or another of the same name by now.
        with contextlib.suppress(NotFoundError, ConflictError):
            self._cluster.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"])


def _selected(spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())


def _tolerates(spec: Mapping[str, Any], node: Object, effects: set[str]) -> bool:
    tolerations = [*spec.get("tolerations", ()), *_OWN_TOLERATIONS]
    return all(
        taint["effect"] not in effects or any(_covers(toleration, taint) for toleration in tolerations)
        for taint in node.get("spec", {}).get("taints", ())
    )


def _covers(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))
