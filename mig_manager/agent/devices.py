"""What the kubelet should list for the cards as they are: device ids by resource, under the plugin's strategy.

Facts of NVIDIA's device plugin 0.20: under mixed a slice is ``nvidia.com/mig-<profile>`` and a card without MIG
``nvidia.com/gpu``; under single everything is ``nvidia.com/gpu``. A card with MIG on and no slices adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mig_manager.agent.pods import SHARED
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.state import Card, SliceKey
from mig_manager.kube.podresources.values import Devices, physical_id
from mig_manager.kube.quantity import how_many
from mig_manager.planner.strategy import Strategy

WHOLE_GPU = "nvidia.com/gpu"

_OLD_STYLE = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-f-]+)/(?P<gi>[0-9]{1,9})/(?P<ci>[0-9]{1,9})")
"""How drivers before R470 called a MIG device."""

_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How the driver calls cards and MIG devices since, and NVIDIA's plugin with it."""

_HANDED_OUT = (WHOLE_GPU, "nvidia.com/mig-")
"""How the resources begin whose devices are GPUs; network cards of the same maker have names like these, too."""


@dataclass(frozen=True, slots=True)
class Device:
    """Something that a device plugin can hand out: a compute instance, or a card without MIG."""

    id: str
    key: SliceKey
    resource: str
    name: SliceName | None = None


def is_gpu_resource(name: str) -> bool:
    """Whether what a device plugin hands out under that name is a GPU, or a part of one."""
    return name.startswith(_HANDED_OUT)


def devices_of(cards: Iterable[Card], strategy: Strategy) -> Iterator[Device]:
    """Everything on these cards that can be handed out."""
    for card in cards:
        if not card.mig_current:
            yield Device(card.uuid, SliceKey(card.uuid), WHOLE_GPU)
            continue
        for instance in card.instances:
            profile = card.profiles[instance.profile_id]
            for compute in instance.compute:
                width = compute.placement.size
                name = SliceName(
                    profile.name.gpu,
                    profile.name.memory_gb,
                    profile.name.attributes,
                    None if width == profile.slice_count else width,
                )
                resource = WHOLE_GPU if strategy is Strategy.SINGLE else name.resource
                yield Device(compute.uuid, SliceKey(card.uuid, instance.id, compute.id), resource, name)


def counts(devices: Iterable[Device]) -> dict[str, int]:
    """How many devices of each resource."""
    found: dict[str, int] = {}
    for device in devices:
        found[device.resource] = found.get(device.resource, 0) + 1
    return dict(sorted(found.items()))


def key_of(device_id: str, devices: Sequence[Device]) -> SliceKey | None:
    """What a device id of the kubelet stands for; ``None`` for one that is not there (any more)."""
    plain = physical_id(device_id)
    old = _OLD_STYLE.fullmatch(plain)
    if old is not None:
        return SliceKey(old["gpu"], int(old["gi"]), int(old["ci"]))
    return next((d.key for d in devices if d.id == plain), None) if plain else None


def may_mean(resource: str, device_id: str, devices: Iterable[Device]) -> frozenset[SliceKey]:
    """What an id may stand for that ``key_of`` does not find: everything on a card, any device, or nothing any more.

    The UUID of a card with MIG on stands for all of the card: whoever got it before may use any slice of it. A UUID
    that is not there is that of something that is gone, or of a slice of which the driver tells no UUID. An id of
    another form is that of a plugin that we do not know: in doubt every device is meant.
    """
    if not is_gpu_resource(resource):
        return frozenset()
    plain = physical_id(device_id)
    if _UUID.fullmatch(plain) is None:
        return frozenset(key for d in devices for key in (d.key, SliceKey(d.key.gpu_uuid)))
    whole = {SliceKey(plain)} if plain.startswith("GPU-") else set[SliceKey]()
    return frozenset(whole | {d.key for d in devices if d.key.gpu_uuid == plain or not d.id})


def offered(allocatable: Iterable[Devices]) -> dict[str, frozenset[str]]:
    """The physical ids that the kubelet lists for GPU resources, by resource; empty ones are left out."""
    found: dict[str, frozenset[str]] = {}
    for entry in allocatable:
        if is_gpu_resource(entry.resource) and entry.ids:
            name = entry.resource.removesuffix(SHARED)
            found[name] = found.get(name, frozenset()) | {physical_id(i) for i in entry.ids}
    return found


def listed(allocatable: Iterable[Devices]) -> dict[str, int]:
    """How many device ids, replicas counted, the kubelet lists for each GPU resource as it is called there."""
    found: dict[str, int] = {}
    for entry in allocatable:
        if is_gpu_resource(entry.resource) and entry.ids:
            found[entry.resource] = found.get(entry.resource, 0) + len(entry.ids)
    return found


def planned(devices: Iterable[Device]) -> dict[str, frozenset[str]]:
    """The ids that the kubelet should list, by resource."""
    found: dict[str, frozenset[str]] = {}
    for device in devices:
        found[device.resource] = found.get(device.resource, frozenset()) | {device.id}
    return found


def allocatable_counts(node_allocatable: Mapping[str, str]) -> dict[str, int]:
    """The GPU resources of a Node's ``status.allocatable``; zeros, which stay for ever, are left out."""
    found = {name: how_many(amount) for name, amount in node_allocatable.items() if is_gpu_resource(name)}
    return {name: count for name, count in found.items() if count}
