"""What the API server says about the demo's nodes and pods at one moment, as far as the demo shows or checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mig_manager.api.marks import CORDON_ANNOTATION
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE, POD
from mig_manager.kube.port import Cluster, Object

APPLIED_PROFILE = "migmanager.io/applied-profile"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and its MIGNode. ``taken_out`` says that the agent cordoned it; ``applied`` is its label."""

    name: str
    profile: str = ""
    applied: str = ""
    step: str = ""
    slices: str = ""
    reason: str = ""
    message: str = ""
    boot_id: str = ""
    seen_boot_id: str = ""
    taken_out: bool = False

    @property
    def ready(self) -> bool:
        """Whether it has its layout, since its last boot, and is open for pods."""
        booted = self.boot_id == self.seen_boot_id
        return booted and self.reason == "Ready" and self.applied == self.profile and not self.taken_out

    @property
    def now(self) -> str:
        """What is going on there, in words."""
        if self.ready:
            return "ready"
        if self.reason == "Ready":
            # What the agent said before the node had another profile, or before it went down.
            return "another profile is wanted" if self.profile != self.applied else "just booted"
        words = self.message or self.reason or "waiting for the controller"
        return f"{self.step}: {words}" if self.taken_out else words


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. ``disruption`` is the reason of its condition DisruptionTarget: why it is made to leave."""

    name: str
    app: str
    node: str
    ready: bool
    leaving: bool
    disruption: str


@dataclass(frozen=True, slots=True)
class View:
    """Nodes by name, the pods that use their slices by UID, and how many nodes the MIGConfig counts as ready."""

    nodes: Mapping[str, NodeView]
    pods: Mapping[str, PodView]
    ready: int

    @property
    def all_ready(self) -> bool:
        """Whether all nodes are, and the controller has said so."""
        return self.ready == len(self.nodes) and all(node.ready for node in self.nodes.values())


def view(cluster: Cluster, namespace: str) -> View:
    """Read it; ``namespace`` is that of the pods. Raises ClusterError."""
    mignodes = {m["metadata"]["name"]: m for m in cluster.list(MIG_NODE).items}
    nodes = [_node(node, mignodes.get(node["metadata"]["name"], {})) for node in cluster.list(NODE).items]
    pods = {pod["metadata"]["uid"]: _pod(pod) for pod in cluster.list(POD, namespace).items}
    return View({node.name: node for node in nodes}, pods, sum(_ready(c) for c in cluster.list(MIG_CONFIG).items))


def _node(node: Object, mignode: Mapping[str, Any]) -> NodeView:
    metadata, status = node["metadata"], mignode.get("status") or {}
    ready = _condition(status, "Ready")
    return NodeView(
        name=metadata["name"],
        profile=(mignode.get("spec") or {}).get("desired", {}).get("profile", ""),
        applied=metadata.get("labels", {}).get(APPLIED_PROFILE, ""),
        step=status.get("step", ""),
        slices=status.get("summary", {}).get("slices", ""),
        reason=ready.get("reason", ""),
        message=ready.get("message", ""),
        boot_id=node["status"]["nodeInfo"]["bootID"],
        seen_boot_id=status.get("bootID", ""),
        taken_out=CORDON_ANNOTATION in metadata.get("annotations", {}) and node["spec"].get("unschedulable", False),
    )


def _pod(pod: Object) -> PodView:
    metadata, status = pod["metadata"], pod.get("status") or {}
    return PodView(
        name=f"{metadata['namespace']}/{metadata['name']}",
        app=metadata["labels"]["app"],
        node=pod["spec"].get("nodeName", ""),
        ready=_condition(status, "Ready").get("status") == "True",
        leaving="deletionTimestamp" in metadata,
        disruption=_condition(status, "DisruptionTarget").get("reason", ""),
    )


def _ready(config: Object) -> int:
    status = config.get("status") or {}
    current = status.get("observedGeneration") == config["metadata"]["generation"]
    return int(status["nodes"]["ready"]) if current else 0


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((c for c in status.get("conditions", ()) if c["type"] == kind), {})
