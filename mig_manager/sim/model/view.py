"""The simulated machine in the words that planner and command line use: cards and who holds what."""

from __future__ import annotations

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, Holders, SliceKey
from mig_manager.sim.model.hardware import hardware, mig_uuid
from mig_manager.sim.model.state import CardState, Client, MachineState


def cards(state: MachineState) -> tuple[Card, ...]:
    """Every card as it is, in index order. Unlike NVML's answers this needs no permission and no library."""
    return tuple(_card(index, card) for index, card in enumerate(state.cards))


def holders(state: MachineState) -> Holders:
    """Who holds what, clients that NVML does not list included."""
    found: dict[SliceKey, set[Holder]] = {}
    for card in state.cards:
        for client in card.clients:
            key = SliceKey(card.uuid, client.gpu_instance, client.compute_instance)
            found.setdefault(key, set()).add(Holder(_name(client)))
    return {key: frozenset(who) for key, who in found.items()}


def _name(client: Client) -> str:
    return f"pid {client.pid} ({client.name})"


def _card(index: int, card: CardState) -> Card:
    made = hardware(card.model)
    return Card(
        index=index,
        uuid=card.uuid,
        model=made.model,
        name=made.name,
        device_id=made.device_id,
        bus_id=card.bus_id,
        memory_mib=made.memory_mib,
        mig_current=card.mig_current if made.table else None,
        mig_pending=card.mig_pending if made.table else None,
        table=made.table,
        instances=tuple(
            GpuInstance(
                i.id,
                i.profile_id,
                Placement(i.start, i.size),
                tuple(
                    ComputeInstance(c.id, Placement(c.start, c.size), mig_uuid(card.uuid, i.id, c.id))
                    for c in i.compute
                ),
            )
            for i in card.instances
        ),
        subsystem_id=card.subsystem_id,
        minor=card.minor,
        mode_change=made.architecture.mode_change,
        mode_survives_reboot=made.architecture.mode_survives_reboot,
        reset_group=card.reset_group,
    )
