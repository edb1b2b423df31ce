"""Who uses which slice: what the kubelet says, joined with the pods of the API and the processes of the host.

The kubelet's PodResources API knows which device a pod got, but neither uid nor phase, and leaves ordinary init
containers out. The API server knows all pods, but not their devices. NVML and open device files show processes, and
control groups whose pod each is. Together:

- a pod that the kubelet lists with devices holds exactly those, until its containers have stopped; with a device of
  which nobody knows what it is, it holds whatever that may be;
- a pod that is bound to the node and wants more of a GPU resource than is listed for it may get, or already use in an
  init container, any free slice of that resource: it counts as a holder of each of them. Init containers that have
  ended want nothing any more;
- a process of a pod that asks for GPUs makes that pod a holder, whichever slice it uses;
- one of a pod that asks for none (privileged, or by its runtime's environment) is named with that pod, which is never
  evicted: nobody said that it may be;
- one of a GPU client is nobody: clients go before anything is destroyed, and NVML refuses if one has not;
- one of which nobody knows the pod is that of the pod on its slice, if there is one;
- any other process is a holder of its own, and never killed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mig_manager.agent.clients import GpuClient
from mig_manager.agent.devices import Device, is_gpu_resource, key_of, may_mean
from mig_manager.agent.pods import GPU_RESOURCES, SHARED, Pod
from mig_manager.geometry.state import Holder, Holders, SliceKey
from mig_manager.gpu.hints import WHOSE_HINT, holder_of
from mig_manager.gpu.holders import Users
from mig_manager.gpu.proc import User
from mig_manager.kube.podresources.values import PodDevices

_ASKS_FOR_NOTHING = (
    "it asks for no GPU and is never evicted: delete it, keep it off the node, or add it to the list of GPU clients"
)


@dataclass(frozen=True)
class Holding:
    """Who holds what. ``unplaced`` are the pods of which nobody knows (yet) which slice they use."""

    holders: Holders = field(default_factory=dict)
    unplaced: frozenset[str] = frozenset()


def holding(
    devices: Collection[Device],
    pods: Collection[Pod],
    kubelet: Iterable[PodDevices],
    users: Users,
    clients: Collection[GpuClient],
) -> Holding:
    """Join the views."""
    by_name = {pod.full_name: pod for pod in pods}
    known = tuple(devices)
    found, doubtful, got = _listed(kubelet, by_name, known)
    placed = {key: frozenset(who) for key, who in found.items()}
    for key, holders in doubtful.items():
        found.setdefault(key, set()).update(holders)
    waiting = {name: pod for name, pod in by_name.items() if not pod.finished}
    # What no plugin hands out here, a network card or a scheduler's own count, says nothing about the slice.
    resources = {device.resource for device in known}
    missing = {n: {r for r in resources if pod.wants.get(r, 0) > got[n][r]} for n, pod in waiting.items()}
    for device in known:
        if device.key not in placed:
            may_get = {
                Holder(n, leaving=waiting[n].leaving) for n, names in missing.items() if device.resource in names
            }
            if may_get:
                found.setdefault(device.key, set()).update(may_get)
    asking = {name for name, pod in by_name.items() if any(map(is_gpu_resource, pod.wants)) or got[name]}
    owners = {uid: pod for pod in by_name.values() for uid in pod.process_uids}
    for key, who in users.found.items():
        for user in who:
            owner = owners.get(user.pod_uid or "")
            client = owner is not None and any(c.is_pod(owner) and c.goes_before(key) for c in clients)
            explained = owner is None and user.pod_uid != "" and _explained(key, placed)
            if not client and not explained:
                found.setdefault(key, set()).add(_holder(user, owner, asking))
    unplaced = frozenset(name for name, names in missing.items() if names)
    return Holding({key: frozenset(who) for key, who in found.items()}, unplaced)


def _listed(
    kubelet: Iterable[PodDevices], by_name: Mapping[str, Pod], known: tuple[Device, ...]
) -> tuple[dict[SliceKey, set[Holder]], dict[SliceKey, set[Holder]], defaultdict[str, Counter[str]]]:
    """Who holds what according to the kubelet, who may hold what, and how many GPUs of each resource a pod has got."""
    found: dict[SliceKey, set[Holder]] = {}
    doubtful: dict[SliceKey, set[Holder]] = {}
    got: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in kubelet:
        pod = by_name.get(entry.full_name)
        if pod is None or not pod.finished:
            # One that the API does not know any more has just been deleted; its containers may still run.
            holder = Holder(entry.full_name, leaving=pod is None or pod.leaving)
            for resource, device_id in _given(entry):
                name = resource.removesuffix(SHARED)
                key = key_of(device_id, known)
                if key is not None or is_gpu_resource(name):
                    got[entry.full_name][name] += 1
                if key is not None:
                    found.setdefault(key, set()).add(holder)
                    continue
                for maybe in may_mean(name, device_id, known):
                    doubtful.setdefault(maybe, set()).add(holder)
    return found, doubtful, got


def _holder(user: User, pod: Pod | None, asking: Collection[str]) -> Holder:
    """Who stands in the way where that process does; ``pod`` is its own, ``asking`` are those that want GPUs."""
    own = holder_of(user)
    if pod is None:
        if not user.pod_uid:
            return Holder(own.name, hint=own.hint or WHOSE_HINT)
        # A pod that the API does not know (any more) was deleted by force, or was bound a moment ago.
        return Holder(f"{own.name} of a pod that is unknown here", leaving=True)
    if pod.full_name in asking or pod.leaving or pod.finished:
        return Holder(pod.full_name, leaving=pod.leaving or pod.finished)
    return Holder(f"{pod.full_name} by its {own.name}", hint=own.hint or _ASKS_FOR_NOTHING)


def _given(entry: PodDevices) -> Iterator[tuple[str, str]]:
    """The devices of what may be GPU resources that the kubelet has given a pod, each once: resource and id."""
    for given in entry.devices:
        if given.resource.startswith(GPU_RESOURCES):
            for device_id in dict.fromkeys(given.ids):
                yield given.resource, device_id


def _explained(key: SliceKey, placed: Holders) -> bool:
    """Whether a pod's known device explains a process there."""
    if key in placed:
        return True
    if key.gpu_instance is None:
        return False
    # NVML may name the GPU instance only.
    inside = (k for k in placed if k.gpu_uuid == key.gpu_uuid and k.gpu_instance == key.gpu_instance)
    return key.compute_instance is None and any(inside)
