"""What must hold between the values of a state: only what such a machine can come to is let in from a file."""

from __future__ import annotations

from collections.abc import Iterable

from mig_manager.geometry.profiles import GpuInstanceProfile, Placement
from mig_manager.sim.model.hardware import MAX_CARDS, bus_address, hardware
from mig_manager.sim.model.loading import damaged
from mig_manager.sim.model.state import CardState, Fault, GpuInstanceState, MachineError, MachineState

_BUS_ID_PARTS = 3


def check(state: MachineState) -> None:
    """Nothing is wrong with the state; ValueError with place and value of what no machine can come to."""
    if len(state.cards) > MAX_CARDS:
        raise damaged("machine.cards", len(state.cards), f"at most {MAX_CARDS} cards")
    _unlike("machine.cards", "uuid", (card.uuid for card in state.cards))
    _unlike("machine.cards", "bus_id", (card.bus_id.lower() for card in state.cards))
    _unlike("machine.cards", "minor", (card.minor for card in state.cards))
    for number, card in enumerate(state.cards):
        _check_card(card, f"machine.cards[{number}]")
    for number, fault in enumerate(state.faults):
        _check_fault(fault, f"machine.faults[{number}]")


def _check_card(card: CardState, path: str) -> None:
    try:
        table = hardware(card.model).table
    except MachineError:
        raise damaged(f"{path}.model", card.model, "a card that can be simulated") from None
    if not card.uuid:
        raise damaged(f"{path}.uuid", card.uuid, "a UUID")
    if bus_address(card.bus_id) is None or len(card.bus_id.split(":")) != _BUS_ID_PARTS:
        raise damaged(f"{path}.bus_id", card.bus_id, "a PCI address")
    for name in ("mig_current", "mig_pending"):
        if table is None and getattr(card, name):
            raise damaged(f"{path}.{name}", value=True, wanted="possible: the card has no MIG")
    _unlike(f"{path}.instances", "id", (instance.id for instance in card.instances))
    occupied = 0
    for number, instance in enumerate(card.instances):
        here = f"{path}.instances[{number}]"
        profile = table.get(instance.profile_id) if table is not None else None
        if profile is None:
            raise damaged(f"{here}.profile_id", instance.profile_id, "a profile of the card")
        placement = Placement(instance.start, instance.size)
        if placement not in profile.placements:
            raise damaged(f"{here}.start", instance.start, f"a place of {profile} with size {instance.size}")
        if placement.mask & occupied:
            raise damaged(f"{here}.start", instance.start, "free: another instance lies there")
        occupied |= placement.mask
        _check_compute(instance, profile, here)


def _check_compute(instance: GpuInstanceState, profile: GpuInstanceProfile, path: str) -> None:
    _unlike(f"{path}.compute", "id", (compute.id for compute in instance.compute))
    profiles = {p.id: p for p in profile.compute}
    occupied = 0
    for number, compute in enumerate(instance.compute):
        here = f"{path}.compute[{number}]"
        if compute.profile_id not in profiles:
            raise damaged(f"{here}.profile_id", compute.profile_id, f"a compute instance profile of {profile}")
        placement = Placement(compute.start, compute.size)
        if placement not in profiles[compute.profile_id].placements:
            raise damaged(f"{here}.start", compute.start, f"a place of it with size {compute.size}")
        if placement.mask & occupied:
            raise damaged(f"{here}.start", compute.start, "free: another compute instance lies there")
        occupied |= placement.mask


def _check_fault(fault: Fault, path: str) -> None:
    if not fault.calls:
        raise damaged(f"{path}.calls", fault.calls, "a call")


def _unlike(path: str, field: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for number, value in enumerate(values):
        if value in seen:
            raise damaged(f"{path}[{number}].{field}", value, "its own: another has it too")
        seen.add(value)
