"""Who uses which slice: what the kubelet says, joined with the pods of the API and the processes that NVML sees.

The kubelet's PodResources API knows which device a pod got, but neither uid nor phase, and leaves ordinary init
containers out. The API server knows all pods, but not their devices. NVML knows processes, but not pods. Together:

- a pod that the kubelet lists with devices holds exactly those, until its containers have stopped;
- a pod that is bound to the node, wants GPU resources and has none of them listed yet may get, or in an init container
  already use, any free slice of those resources: it counts as a holder of each of them;
- a process on a slice that a pod holds is that pod's; any other process is a holder of its own, and never killed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from mig_manager.agent.devices import Device, key_of
from mig_manager.agent.pods import GPU_RESOURCES, SHARED, Pod
from mig_manager.geometry.state import Holder, Holders, SliceKey
from mig_manager.kube.podresources.values import PodDevices


@dataclass(frozen=True)
class Holding:
    """Who holds what. ``unplaced`` are the pods of which nobody knows (yet) which slice they use."""

    holders: Holders = field(default_factory=dict)
    unplaced: frozenset[str] = frozenset()


def holding(
    devices: Collection[Device], pods: Iterable[Pod], kubelet: Iterable[PodDevices], processes: Holders
) -> Holding:
    """Join the three views."""
    by_name = {pod.full_name: pod for pod in pods}
    known = tuple(devices)
    found: dict[SliceKey, set[Holder]] = {}
    got: dict[str, set[str]] = {}
    for entry in kubelet:
        pod = by_name.get(entry.full_name)
        if pod is None or not pod.finished:
            # One that the API does not know any more has just been deleted; its containers may still run.
            holder = Holder(entry.full_name, leaving=pod is None or pod.leaving)
            for resource, key in _given(entry, known):
                got.setdefault(entry.full_name, set()).add(resource)
                if key is not None:
                    found.setdefault(key, set()).add(holder)
    placed = {key: frozenset(who) for key, who in found.items()}
    waiting = {pod.full_name: pod for pod in by_name.values() if not pod.finished}
    missing = {name: pod.resources - got.get(name, set()) for name, pod in waiting.items()}
    for device in known:
        if device.key not in placed:
            may_get = {
                Holder(n, leaving=waiting[n].leaving) for n, names in missing.items() if device.resource in names
            }
            if may_get:
                found.setdefault(device.key, set()).update(may_get)
    for key, who in processes.items():
        if not _explained(key, placed):
            found.setdefault(key, set()).update(who)
    unplaced = frozenset(name for name, names in missing.items() if names)
    return Holding({key: frozenset(who) for key, who in found.items()}, unplaced)


def _given(entry: PodDevices, devices: tuple[Device, ...]) -> Iterator[tuple[str, SliceKey | None]]:
    """The GPU devices that the kubelet has given a pod: resource, and what the device is if it is still there."""
    for given in entry.devices:
        if given.resource.startswith(GPU_RESOURCES):
            for device_id in given.ids:
                yield given.resource.removesuffix(SHARED), key_of(device_id, devices)


def _explained(key: SliceKey, placed: Holders) -> bool:
    """Whether a pod's known device explains a process there."""
    if key in placed:
        return True
    if key.gpu_instance is None:
        return False
    # NVML may name the GPU instance only.
    inside = (k for k in placed if k.gpu_uuid == key.gpu_uuid and k.gpu_instance == key.gpu_instance)
    return key.compute_instance is None and any(inside)
