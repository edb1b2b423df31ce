"""What other tools are doing with this node: then it is their turn, and said.

Sources: NVIDIA k8s-operator-libs (driver upgrades of the GPU operator), Kubernetes' Cluster Autoscaler (taints),
Karpenter ("Disruption"), medik8s node maintenance operator (taint, and Lease ``node-<name>``).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import LEASE
from mig_manager.kube.port import Cluster

_UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
_NOT_UPGRADING = frozenset({"", "upgrade-required", "upgrade-done"})
"""``upgrade-required`` is a node that waits for its turn, for weeks if need be."""

_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is deleting the node",
    "DeletionCandidateOfClusterAutoscaler": "the cluster autoscaler is about to delete the node",
    "karpenter.sh/disrupted": "Karpenter is replacing the node",
    "karpenter.sh/disruption": "Karpenter is replacing the node",
    "medik8s.io/drain": "the node maintenance operator is draining the node",
}


def maintenance(node: Mapping[str, Any]) -> str:
    """Which tool is at work on the Node; empty when none is to be seen."""
    state = (node["metadata"].get("labels") or {}).get(_UPGRADE, "")
    if state not in _NOT_UPGRADING:
        return f"the GPU operator is upgrading the driver ({_UPGRADE}={state})"
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or ()}
    return next((f"{what} (taint {key})" for key, what in _TAINTS.items() if key in taints), "")


def maintenance_lease(cluster: Cluster, namespace: str, node: str, now: datetime) -> str:
    """Who has reserved the node in that namespace of maintenance Leases; empty when nobody has. One request."""
    name = f"node-{node}"
    try:
        spec = cluster.get(LEASE, name, namespace).get("spec") or {}
    except NotFoundError:
        return ""
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        return ""
    ends = datetime.fromisoformat(renewed) + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return f"{holder} has reserved the node (Lease {namespace}/{name})" if now < ends else ""
