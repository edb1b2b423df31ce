"""Others who cut the cards of this node, or share them in a way that excludes MIG: with them nothing is touched.

Sources: NVIDIA GPU operator and k8s-mig-manager (labels and pods), NVIDIA k8s-device-plugin 0.20 (MPS is refused for
MIG devices, and feature discovery ends with an error), NVIDIA DRA driver and the ResourceSlice API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mig_manager.agent.pods import Pod
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import RESOURCE_SLICE, RESOURCE_SLICE_BETA
from mig_manager.kube.port import Cluster

_MANAGER = {"app": "nvidia-mig-manager"}
_MANAGER_GATE = "nvidia.com/gpu.deploy.mig-manager"
_MANAGER_STATE = "nvidia.com/mig.config.state"
_UNDER_WAY = frozenset({"pending", "rebooting"})
_MANAGER_PAUSE = "paused-for-mig-change"
_DEPLOY = "nvidia.com/gpu.deploy."

_MPS_LABELS = {"nvidia.com/mps.capable": "true", "nvidia.com/gpu.sharing-strategy": "mps"}
_MPS_DAEMON = {"app": "nvidia-device-plugin-mps-control-daemon"}
_MPS_CONTAINER = "mps-control-daemon-ctr"

DRA_DRIVER = "gpu.nvidia.com"


def foreign_manager(node: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """Why NVIDIA's MIG manager is in charge of these cards, and what to do; empty when it is not.

    It is where its pod runs, or where it was interrupted in the middle of a change: it would go on. The label
    ``nvidia.com/mig.config`` alone says nothing: the operator leaves it behind, and it may be how people choose our
    profiles.
    """
    running = [pod.full_name for pod in pods if _MANAGER.items() <= pod.labels.items() and not pod.finished]
    if running:
        return f"{running[0]} manages MIG here; set {_MANAGER_GATE}=false on this node"
    labels = node["metadata"].get("labels") or {}
    state = labels.get(_MANAGER_STATE, "")
    if labels.get(_MANAGER_GATE) == "true" and state in _UNDER_WAY:
        return f"nvidia-mig-manager is in the middle of a change ({_MANAGER_STATE}={state}); set {_MANAGER_GATE}=false"
    paused = sorted(key for key, value in labels.items() if key.startswith(_DEPLOY) and value == _MANAGER_PAUSE)
    if paused:
        return f"nvidia-mig-manager has left {paused[0]}={_MANAGER_PAUSE}; set it to true when it is not at work"
    return ""


def mps(node: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """Why NVIDIA's MPS is configured here, and what to do; empty when it is not."""
    labels = node["metadata"].get("labels") or {}
    signs = [f"label {key}={value}" for key, value in _MPS_LABELS.items() if labels.get(key) == value]
    signs += [f"pod {pod.full_name}" for pod in pods if _is_daemon(pod) and not pod.finished]
    if not signs:
        return ""
    return f"MPS and MIG exclude each other: take sharing.mps out of the device plugin's configuration ({signs[0]})"


def dra_driver(cluster: Cluster, node: str) -> str:
    """Why NVIDIA's DRA driver is in charge of these cards, and what to do; empty when it is not. One request.

    Two on a cluster whose API server knows the API as beta only; one without the API has no such driver.
    """
    for kind in (RESOURCE_SLICE, RESOURCE_SLICE_BETA):
        try:
            found = cluster.list(kind, fields=f"spec.nodeName={node},spec.driver={DRA_DRIVER}").items
        except NotFoundError:
            continue
        if found:
            name = found[0]["metadata"]["name"]
            return f"NVIDIA's DRA driver publishes the cards of this node (ResourceSlice {name}); keep it off the node"
        break
    return ""


def _is_daemon(pod: Pod) -> bool:
    named = any(c.get("name") == _MPS_CONTAINER for c in pod.containers())
    return named or _MPS_DAEMON.items() <= pod.labels.items()
