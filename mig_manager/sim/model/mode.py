"""MIG mode, reset and reboot: what each GPU generation keeps and loses.

Sources: NVIDIA MIG User Guide, "Enable MIG Mode" (Ampere needs a reset and keeps the mode in its InfoROM; Hopper and
newer need none and lose the mode with the driver; instances survive nothing), nvml.h on nvmlDeviceSetMigMode (success
with an activation status means that only the pending mode changed).
"""

from __future__ import annotations

from mig_manager.geometry.cards import ModeChange
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.hardware import hardware, new_boot_id
from mig_manager.sim.model.lookup import table_of
from mig_manager.sim.model.state import CardState, MachineState


def set_mode(state: MachineState, card: CardState, *, enabled: bool) -> NvmlCode:
    """Ask for a mode and return the activation status; the mode became current only with SUCCESS.

    Where a change needs a reset, the driver tries one. That is refused on passed-through cards (NOT_SUPPORTED) and
    while anything in the card's reset group is in use (IN_USE); the instances of other cards in the group count as
    use, since the driver resets nothing that somebody made.
    """
    table_of(card)
    card.mig_pending = enabled
    if card.mig_current == enabled:
        return NvmlCode.SUCCESS
    if card.clients or card.instances:
        return NvmlCode.IN_USE
    if hardware(card.model).architecture.mode_change is ModeChange.IMMEDIATE:
        card.mig_current = enabled
        return NvmlCode.SUCCESS
    if card.passthrough:
        return NvmlCode.NOT_SUPPORTED
    group = state.reset_group(card)
    if any(other.clients or other.instances for other in group):
        return NvmlCode.IN_USE
    for member in group:
        _start_again(member)
    return NvmlCode.SUCCESS


def reset(state: MachineState, card: CardState) -> list[CardState]:
    """Reset the card, and with it its group; return what was reset.

    IN_USE while anybody uses one of them, NOT_SUPPORTED when one is passed through to a virtual machine and needs a
    reset for its mode. Instances that nobody uses are lost.
    """
    group = state.reset_group(card)
    if any(member.passthrough and _changes_by_reset(member) for member in group):
        raise NvmlFault(NvmlCode.NOT_SUPPORTED)
    if any(member.clients for member in group):
        raise NvmlFault(NvmlCode.IN_USE)
    for member in group:
        _start_again(member)
    return group


def reboot(state: MachineState, *, renumber_minors: bool = False) -> None:
    """Restart the machine: no process or instance survives, and the mode only where the card keeps it.

    ``renumber_minors`` turns the order of the minor numbers round, as probing in another order does.
    """
    for card in state.cards:
        card.clients.clear()
        _lose_driver(card)
    if renumber_minors:
        minors = sorted((c.minor for c in state.cards), reverse=True)
        for card, minor in zip(sorted(state.cards, key=lambda c: c.minor), minors, strict=True):
            card.minor = minor
    state.boots += 1
    state.boot_id = new_boot_id(state.seed, state.boots)


def reload_driver(state: MachineState) -> None:
    """Unload the driver and load it again: the cards are as after a reboot, but the machine has not restarted.

    IN_USE while anybody uses a card.
    """
    if any(card.clients for card in state.cards):
        raise NvmlFault(NvmlCode.IN_USE)
    for card in state.cards:
        _lose_driver(card)


def _lose_driver(card: CardState) -> None:
    if not hardware(card.model).architecture.mode_survives_reboot:
        card.mig_pending = False
    _start_again(card)


def _changes_by_reset(card: CardState) -> bool:
    return hardware(card.model).architecture.mode_change is ModeChange.RESET


def _start_again(card: CardState) -> None:
    card.instances.clear()
    card.mig_current = card.mig_pending
