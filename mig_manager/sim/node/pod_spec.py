"""What the simulated kubelet reads in a pod: its containers, what they ask for, and how they are meant to behave.

Two annotations say what no field says: how long the ordinary init containers run, and how long the processes take to
leave once they are told to. Without them both are over at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mig_manager.kube.port import Object

INIT_SECONDS = "sim.migmanager.io/init-seconds"
SHUTDOWN_SECONDS = "sim.migmanager.io/shutdown-seconds"
DEFAULT_GRACE_S = 30

Container = Mapping[str, Any]


def uid(pod: Object) -> str:
    """The pod's UID."""
    return str(pod["metadata"]["uid"])


def init_containers(pod: Object) -> Iterator[Container]:
    """The ordinary init containers: they end before the pod's own containers start."""
    return (c for c in pod["spec"].get("initContainers", ()) if not is_sidecar(c))


def lasting_containers(pod: Object) -> Iterator[Container]:
    """Sidecars (restartable init containers) and the pod's own containers."""
    yield from sidecars(pod)
    yield from pod["spec"]["containers"]


def sidecars(pod: Object) -> Iterator[Container]:
    """The restartable init containers."""
    return (c for c in pod["spec"].get("initContainers", ()) if is_sidecar(c))


def is_sidecar(container: Container) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.get("restartPolicy") == "Always"


def device_limits(container: Container) -> dict[str, int]:
    """The extended resources a container asks for; their names have a domain, those of cpu and memory none."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {resource: int(amount) for resource, amount in limits.items() if "/" in resource}


def seconds(pod: Object, annotation: str) -> float:
    """A duration from an annotation, 0 without it."""
    return float((pod["metadata"].get("annotations") or {}).get(annotation, 0))


def is_finished(pod: Object) -> bool:
    """Whether the pod ran to its end or was rejected: such a pod holds nothing and never starts again."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_leaving(pod: Object) -> bool:
    """Whether somebody asked for the pod's deletion."""
    return "deletionTimestamp" in pod["metadata"]


def grace_s(pod: Object) -> float:
    """How long the pod may take to leave: what the deletion said, else its own wish."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return float(DEFAULT_GRACE_S if asked is None else asked)
