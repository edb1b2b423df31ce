"""Cards and MIG devices: finding them and reading what they are, as the NVML functions of that name do.

A function that nvml.h restricts to physical devices answers INVALID_ARGUMENT for a MIG device.
"""

from __future__ import annotations

from dataclasses import dataclass

from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import ComputeProfile, Engines, GpuInstanceProfile
from mig_manager.sim.model import lookup
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.hardware import Hardware, bus_address, eighths, figure, hardware, mig_uuid
from mig_manager.sim.model.keys import AnyDeviceKey, DeviceKey, MigDeviceKey
from mig_manager.sim.model.mode import set_mode
from mig_manager.sim.model.state import (
    CardState,
    Client,
    ClientKind,
    ComputeInstanceState,
    GpuInstanceState,
    MachineState,
)
from mig_manager.sim.model.store import Store

_IDLE_HALF_MIB = 71  # an idle slice uses 36, 71 or 142 MiB with one, two or four eighths of the memory
_RESERVED_SHARE = 96  # nominal: about a hundredth of the memory is the driver's own


@dataclass(frozen=True)
class Memory:
    """Memory in MiB; ``used`` is without ``reserved``."""

    total: int
    reserved: int
    used: int

    @property
    def free(self) -> int:
        """What could still be allocated."""
        return self.total - self.reserved - self.used


@dataclass(frozen=True)
class Attributes:
    """What a MIG device has; engines are shared by all devices of its GPU instance."""

    multiprocessors: int
    engines: Engines
    gpu_instance_slices: int
    compute_instance_slices: int
    memory_mib: int


def count(store: Store) -> int:
    """How many cards there are."""
    return len(store.read().cards)


def by_index(store: Store, index: int) -> DeviceKey:
    """The card at that place in the order of bus ids."""
    cards = store.read().cards
    if not 0 <= index < len(cards):
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return DeviceKey(cards[index].uuid)


def by_uuid(store: Store, uuid: str) -> AnyDeviceKey:
    """The card or MIG device with that UUID; NOT_FOUND when there is none."""
    if not uuid:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    state = store.read()
    if state.card(uuid) is not None:
        return DeviceKey(uuid)
    for card in state.cards:
        for instance, compute in _mig_devices(card):
            if mig_uuid(card.uuid, instance.id, compute.id) == uuid:
                return lookup.mig_key(card, instance, compute)
    raise NvmlFault(NvmlCode.NOT_FOUND)


def by_bus_id(store: Store, bus_id: str) -> DeviceKey:
    """The card at that PCI address, written with or without domain; NOT_FOUND when there is none."""
    wanted = bus_address(bus_id)
    if wanted is None:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    for card in store.read().cards:
        if bus_address(card.bus_id) == wanted:
            return DeviceKey(card.uuid)
    raise NvmlFault(NvmlCode.NOT_FOUND)


def physical_card(store: Store, device: AnyDeviceKey) -> CardState:
    """A card's particulars; INVALID_ARGUMENT for a MIG device."""
    return lookup.physical(store.read(), device)


def physical_hardware(store: Store, device: AnyDeviceKey) -> Hardware:
    """What never changes about a card; INVALID_ARGUMENT for a MIG device."""
    return hardware(physical_card(store, device).model)


def numa_mask(store: Store, device: AnyDeviceKey) -> int:
    """The NUMA node of a card as the bit of that number; NOT_SUPPORTED where nobody knows it."""
    node = physical_card(store, device).numa_node
    if node is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    return 1 << node


def index(store: Store, device: AnyDeviceKey) -> int:
    """The place of a card in the order of bus ids."""
    state = store.read()
    return state.cards.index(lookup.physical(state, device))


def name(store: Store, device: AnyDeviceKey) -> str:
    """``NVIDIA H200``, and ``NVIDIA H200 MIG 1c.3g.71gb`` for a MIG device."""
    state = store.read()
    if isinstance(device, DeviceKey):
        return hardware(lookup.card_of(state, device).model).name
    card, profile, compute = _mig_device(state, device)
    return f"{hardware(card.model).name} MIG {compute_name(profile, compute.slice_count)}"


def compute_name(profile: GpuInstanceProfile, slices: int) -> SliceName:
    """The name of a compute instance with so many slices in an instance of that profile."""
    plain = profile.name
    return SliceName(plain.gpu, plain.memory_gb, plain.attributes, None if slices == plain.gpu else slices)


def uuid_of(store: Store, device: AnyDeviceKey) -> str:
    """The UUID of a card or MIG device."""
    state = store.read()
    if isinstance(device, DeviceKey):
        return lookup.card_of(state, device).uuid
    card, instance, compute = lookup.compute_instance(state, device)
    return mig_uuid(card.uuid, instance.id, compute.id)


def memory(store: Store, device: AnyDeviceKey) -> Memory:
    """Memory of a card or MIG device; with MIG on, a card's is NO_PERMISSION for the unprivileged."""
    state = store.read()
    if isinstance(device, MigDeviceKey):
        card, instance, _ = lookup.compute_instance(state, device)
        return Memory(figure(lookup.profile_of(card, instance).memory_mib), 0, _used_by(card, instance))
    card = lookup.card_of(state, device)
    if card.mig_current:
        lookup.require_root(state)
    total = hardware(card.model).memory_mib
    whole = sum(c.memory_mib for c in card.clients if c.gpu_instance is None)
    return Memory(total, total // _RESERVED_SHARE, whole + sum(_used_by(card, i) for i in card.instances))


def mig_mode(store: Store, device: AnyDeviceKey) -> tuple[bool, bool]:
    """Current and pending MIG mode; NOT_SUPPORTED without MIG."""
    card = physical_card(store, device)
    lookup.table_of(card)
    return card.mig_current, card.mig_pending


def set_mig_mode(store: Store, device: AnyDeviceKey, mode: int) -> NvmlCode:
    """Ask for MIG mode 0 or 1 and return the activation status."""
    with store.change() as state:
        card = lookup.physical(state, device)
        if mode not in (0, 1):
            raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
        lookup.table_of(card)
        lookup.require_root(state)
        return set_mode(state, card, enabled=bool(mode))


def max_mig_devices(store: Store, device: AnyDeviceKey) -> int:
    """How many MIG devices the card can have: as many as compute slices, 0 while MIG is off."""
    card = physical_card(store, device)
    return lookup.table_of(card).full.slice_count if card.mig_current else 0


def mig_by_index(store: Store, device: AnyDeviceKey, index: int) -> MigDeviceKey:
    """The MIG device with that index, in the order of GPU and compute instance ids; NOT_FOUND when there is none."""
    state = store.read()
    card = lookup.physical(state, device)
    for position, (instance, compute) in enumerate(_mig_devices(card)):
        number = _slice_number(card, instance, compute) if state.quirks.gapped_mig_indices else position
        if number == index:
            return lookup.mig_key(card, instance, compute)
    raise NvmlFault(NvmlCode.NOT_FOUND)


def is_mig(store: Store, device: AnyDeviceKey) -> bool:
    """Whether it is a MIG device."""
    state = store.read()
    if isinstance(device, DeviceKey):
        lookup.card_of(state, device)
        return False
    lookup.compute_instance(state, device)
    return True


def mig_ids(store: Store, device: AnyDeviceKey) -> tuple[int, int]:
    """GPU and compute instance id of a MIG device; INVALID_ARGUMENT for a card."""
    _, instance, compute = lookup.compute_instance(store.read(), _mig(device))
    return instance.id, compute.id


def parent(store: Store, device: AnyDeviceKey) -> DeviceKey:
    """The card that a MIG device is on; INVALID_ARGUMENT for a card."""
    card, _, _ = lookup.compute_instance(store.read(), _mig(device))
    return DeviceKey(card.uuid)


def attributes(store: Store, device: AnyDeviceKey) -> Attributes:
    """What a MIG device has; NOT_SUPPORTED for a card."""
    state = store.read()
    if isinstance(device, DeviceKey):
        lookup.card_of(state, device)
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    _, profile, compute = _mig_device(state, device)
    return Attributes(
        multiprocessors=figure(compute.multiprocessors),
        engines=profile.engines,
        gpu_instance_slices=profile.slice_count,
        compute_instance_slices=compute.slice_count,
        memory_mib=figure(profile.memory_mib),
    )


def processes(store: Store, device: AnyDeviceKey, kind: ClientKind) -> list[Client]:
    """The visible processes of one kind on a card with all its MIG devices, or on one MIG device."""
    state = store.read()
    if isinstance(device, DeviceKey):
        clients = lookup.card_of(state, device).clients
    else:
        card, instance, compute = lookup.compute_instance(state, device)
        clients = card.clients_of(instance.id, compute.id)
    return [c for c in clients if c.visible and c.kind == kind]


def utilization(store: Store, device: AnyDeviceKey) -> tuple[int, int]:
    """Busy percentages of GPU and memory; NOT_SUPPORTED with MIG on and for MIG devices."""
    state = store.read()
    card = lookup.card_of(state, device)
    if card.mig_current or isinstance(device, MigDeviceKey):
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    return (100, 50) if card.clients else (0, 0)


def _mig(device: AnyDeviceKey) -> MigDeviceKey:
    if not isinstance(device, MigDeviceKey):
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return device


def _mig_device(state: MachineState, device: MigDeviceKey) -> tuple[CardState, GpuInstanceProfile, ComputeProfile]:
    card, instance, compute = lookup.compute_instance(state, device)
    profile = lookup.profile_of(card, instance)
    return card, profile, next(c for c in profile.compute if c.id == compute.profile_id)


def _mig_devices(card: CardState) -> list[tuple[GpuInstanceState, ComputeInstanceState]]:
    return [(i, c) for i in card.instances for c in i.compute]


def _slice_number(card: CardState, instance: GpuInstanceState, compute: ComputeInstanceState) -> int:
    table = lookup.table_of(card)
    return instance.start // (table.units // table.full.slice_count) + compute.start


def _used_by(card: CardState, instance: GpuInstanceState) -> int:
    share = eighths(lookup.table_of(card), lookup.profile_of(card, instance))
    return (_IDLE_HALF_MIB * share + 1) // 2 + sum(c.memory_mib for c in card.clients_of(instance.id))
