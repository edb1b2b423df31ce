"""Which devices NVIDIA's device plugin advertises for a machine, and which layouts end it.

The rules are those of k8s-device-plugin 0.20, read in its source: strategy ``none`` lists every card whole, even one
with MIG on; ``single`` wants all cards alike and calls every slice ``nvidia.com/gpu``; ``mixed`` names a resource after
each profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mig_manager.geometry.names import SliceName
from mig_manager.sim.model.devices import compute_name
from mig_manager.sim.model.hardware import hardware, mig_uuid
from mig_manager.sim.model.lookup import profile_of
from mig_manager.sim.model.state import CardState, MachineState
from mig_manager.sim.node.program import ProgramCrash

GPU_RESOURCE = "nvidia.com/gpu"


class Strategy(StrEnum):
    """The plugin's MIG strategy, as its environment variable MIG_STRATEGY spells it."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class PluginCrash(ProgramCrash):
    """The plugin refuses this layout; whatever it had advertised is gone."""


@dataclass
class Enumeration:
    """What the plugin found: device ids by resource, the NUMA node of each, and what it only warns about.

    A card that does not say where it is gives its devices no NUMA node.
    """

    resources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    numa_nodes: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, resource: str, device: str, card: CardState) -> None:
        """Put a device of a card under its resource."""
        self.resources[resource] = (*self.resources.get(resource, ()), device)
        if card.numa_node is not None:
            self.numa_nodes[device] = card.numa_node


@dataclass(frozen=True)
class MigDevice:
    """A slice as the plugin sees it: UUID, name, and what NVML says it has."""

    uuid: str
    name: SliceName
    attributes: tuple[object, ...]


def enumerate_devices(machine: MachineState, strategy: Strategy) -> Enumeration:
    """The devices that a plugin started now would advertise; PluginCrash when it would not come up."""
    return _STRATEGIES[strategy](machine)


def mig_devices(card: CardState) -> Iterator[MigDevice]:
    """The compute instances of a card as devices; a GPU instance without one is no device."""
    for instance in card.instances:
        profile = profile_of(card, instance)
        profiles = {c.id: c for c in profile.compute}
        for compute in instance.compute:
            inner = profiles[compute.profile_id]
            yield MigDevice(
                mig_uuid(card.uuid, instance.id, compute.id),
                compute_name(profile, inner.slice_count),
                (profile.slice_count, profile.memory_mib, profile.engines, inner.slice_count, inner.multiprocessors),
            )


def _none(machine: MachineState) -> Enumeration:
    found = Enumeration()
    for card in machine.cards:
        found.add(GPU_RESOURCE, card.uuid, card)
    return found


def _single(machine: MachineState) -> Enumeration:
    found = _none(machine)
    if not any(card.mig_current for card in machine.cards):
        return found
    if not all(card.mig_current for card in machine.cards):
        raise PluginCrash("all devices on the node must be configured with the same migEnabled value")
    found = Enumeration()
    kinds: set[tuple[object, ...]] = set()
    for index, card in enumerate(machine.cards):
        devices = list(mig_devices(card))
        if not devices:
            raise PluginCrash(
                "at least one device with migEnabled=true was not configured correctly: "
                f"device {index} has no MIG devices"
            )
        for device in devices:
            kinds.add(device.attributes)
            found.add(GPU_RESOURCE, device.uuid, card)
    if len(kinds) > 1:
        raise PluginCrash("more than one MIG device type present on node")
    return found


def _mixed(machine: MachineState) -> Enumeration:
    found = Enumeration()
    for index, card in enumerate(machine.cards):
        if not card.mig_current:
            found.add(GPU_RESOURCE, card.uuid, card)
            continue
        devices = list(mig_devices(card))
        if not devices:
            found.warnings.append(f"device {index} ({hardware(card.model).name}) has no MIG devices configured")
        for device in devices:
            if device.name.compute is not None:
                raise PluginCrash(f"MIG device {device.name} on device {index} matches no resource")
            found.add(device.name.resource, device.uuid, card)
    return found


_STRATEGIES: Mapping[Strategy, Callable[[MachineState], Enumeration]] = {
    Strategy.NONE: _none,
    Strategy.SINGLE: _single,
    Strategy.MIXED: _mixed,
}
