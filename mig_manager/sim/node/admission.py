"""Whether the kubelet takes a pod that the scheduler bound to its node."""

from __future__ import annotations

from dataclasses import dataclass

from mig_manager.kube.port import Object
from mig_manager.sim.node import pod_spec
from mig_manager.sim.node.device_manager import AllocationError, Counts, DeviceManager
from mig_manager.sim.node.topology import AffinityError


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is not taken; its phase becomes Failed, for good."""

    reason: str
    message: str


def admit(pod: Object, devices: DeviceManager) -> Rejection | None:
    """Allocate the devices of all containers of a pod, init containers first, or say why it is rejected.

    First topology and device manager, then the fit check, as in NewMainKubelet. The fit check forgets resources that
    the Node does not have at all (removeMissingExtendedResources): such a pod runs without a device.
    """
    uid = pod_spec.uid(pod)
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    ordinary = {c["name"] for c in pod_spec.init_containers(pod)}
    try:
        for container in containers:
            name = container["name"]
            devices.allocate(uid, name, pod_spec.device_limits(container), reusable=name in ordinary)
    except AllocationError as error:
        devices.release(uid)
        return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
    except AffinityError as error:
        devices.release(uid)
        return Rejection("TopologyAffinityError", str(error))
    counts = devices.counts()
    for container in containers:
        for resource, amount in pod_spec.device_limits(container).items():
            if amount and counts.get(resource) == Counts(0, 0):
                devices.release(uid)
                return Rejection(
                    f"OutOf{resource}",
                    f"Node didn't have enough resource: {resource}, requested: {amount}, used: 0, capacity: 0",
                )
    return None
