"""From a key to what it stands for, with the driver's answer when that is no more."""

from __future__ import annotations

from mig_manager.geometry.profiles import GpuInstanceProfile, ProfileTable
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.hardware import hardware
from mig_manager.sim.model.keys import AnyDeviceKey, ComputeInstanceKey, DeviceKey, GpuInstanceKey, Key, MigDeviceKey
from mig_manager.sim.model.state import CardState, ComputeInstanceState, GpuInstanceState, MachineState


def card_of(state: MachineState, key: Key) -> CardState:
    """The card that the key is on; GPU_IS_LOST when the card is gone."""
    card = state.card(key.uuid)
    if card is None:
        raise NvmlFault(NvmlCode.GPU_IS_LOST)
    return card


def physical(state: MachineState, key: AnyDeviceKey) -> CardState:
    """The card; INVALID_ARGUMENT for a MIG device."""
    if not isinstance(key, DeviceKey):
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return card_of(state, key)


def gpu_instance(state: MachineState, key: GpuInstanceKey) -> tuple[CardState, GpuInstanceState]:
    """The GPU instance; INVALID_ARGUMENT when it was destroyed, even if its id is in use again."""
    card = card_of(state, key)
    instance = card.instance(key.gpu_instance)
    if instance is None or instance.generation != key.generation:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return card, instance


def compute_instance(
    state: MachineState, key: ComputeInstanceKey | MigDeviceKey
) -> tuple[CardState, GpuInstanceState, ComputeInstanceState]:
    """The compute instance; INVALID_ARGUMENT when it was destroyed, even if its id is in use again."""
    card = card_of(state, key)
    instance = card.instance(key.gpu_instance)
    compute = instance.compute_instance(key.compute_instance) if instance else None
    if instance is None or compute is None or compute.generation != key.generation:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    return card, instance, compute


def instance_key(card: CardState, instance: GpuInstanceState) -> GpuInstanceKey:
    """The key of a GPU instance."""
    return GpuInstanceKey(card.uuid, instance.id, instance.generation)


def compute_key(card: CardState, instance: GpuInstanceState, compute: ComputeInstanceState) -> ComputeInstanceKey:
    """The key of a compute instance."""
    return ComputeInstanceKey(card.uuid, instance.id, compute.id, compute.generation)


def mig_key(card: CardState, instance: GpuInstanceState, compute: ComputeInstanceState) -> MigDeviceKey:
    """The key of a MIG device."""
    return MigDeviceKey(card.uuid, instance.id, compute.id, compute.generation)


def table_of(card: CardState) -> ProfileTable:
    """The card's profiles; NOT_SUPPORTED without MIG."""
    table = hardware(card.model).table
    if table is None:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    return table


def profile_of(card: CardState, instance: GpuInstanceState) -> GpuInstanceProfile:
    """The profile that the GPU instance was created with."""
    return table_of(card)[instance.profile_id]


def require_root(state: MachineState) -> None:
    """NO_PERMISSION unless the machine says that its callers are privileged."""
    if not state.root:
        raise NvmlFault(NvmlCode.NO_PERMISSION)


def require_mig(card: CardState) -> ProfileTable:
    """NOT_SUPPORTED while MIG mode is not current; else the profiles."""
    table = table_of(card)
    if not card.mig_current:
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    return table
