"""How people name things on a simulated machine, and how errors name them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import GpuInstanceProfile
from mig_manager.sim.model.codes import NvmlFault, error_text
from mig_manager.sim.model.hardware import bus_address, hardware
from mig_manager.sim.model.instances import profiles
from mig_manager.sim.model.state import CardState, GpuInstanceState, MachineError, MachineState


def find_card(state: MachineState, gpu: int | str) -> CardState:
    """The card with that index, UUID or bus id, in any spelling."""
    address = bus_address(gpu) if isinstance(gpu, str) else None
    for index, card in enumerate(state.cards):
        if gpu in (index, str(index), card.uuid) or (address and address == bus_address(card.bus_id)):
            return card
    raise MachineError(f"there is no GPU {gpu}", f"there are {len(state.cards)}, counted from 0")


def label(state: MachineState, card: CardState) -> str:
    """How messages call the card."""
    return f"GPU {state.cards.index(card)}"


def find_instance(state: MachineState, card: CardState, start: int | None, instance_id: int | None) -> GpuInstanceState:
    """The GPU instance that begins at ``start`` or has that id; if both are said, both must hold."""
    for instance in card.instances:
        if start in (None, instance.start) and instance_id in (None, instance.id):
            return instance
    said = [f"at {start}"] if start is not None else []
    said += [f"with id {instance_id}"] if instance_id is not None else []
    present = ", ".join(f"{hardware_name(card, i)}@{i.start} (id {i.id})" for i in card.instances)
    raise MachineError(
        f"there is no GPU instance {' and '.join(said)} on {label(state, card)}",
        f"there are {present}" if present else "there is none at all",
    )


def hardware_name(card: CardState, instance: GpuInstanceState) -> str:
    """The name of the instance's profile on its card."""
    table = hardware(card.model).table
    assert table is not None, "a card with instances has profiles"  # noqa: S101 - an invariant
    return str(table[instance.profile_id])


def find_profile(state: MachineState, card: CardState, wanted: int | str) -> GpuInstanceProfile:
    """The profile with that id, name (``3g.40gb``) or shape (``3g``; of several the one with the lowest constant)."""
    with explained(f"looking for profile {wanted} on {label(state, card)}"):
        table = profiles(state, card)
    found = table.get(wanted) if isinstance(wanted, int) else None
    if isinstance(wanted, str):
        try:
            name = SliceName.parse(wanted)
        except LayoutError as error:
            raise MachineError(error.problem, error.hint) from error
        fitting = [p for p in table if name in (p.name, p.name.shape)]
        found = min(fitting, key=lambda p: p.constant, default=None)
    if found is None:
        known = ", ".join(f"{p} (id {p.id})" for p in table)
        raise MachineError(f"{label(state, card)} has no profile {wanted}", f"it has {known}")
    return found


def find_compute(
    state: MachineState, card: CardState, instance: GpuInstanceState, wanted: int | None, *, needed: bool
) -> int | None:
    """The id of the compute instance meant: ``wanted``, or the first; without any, ``None`` unless one is needed."""
    ids = [c.id for c in instance.compute]
    where = f"GPU instance {instance.id} on {label(state, card)}"
    if wanted is not None and wanted not in ids:
        known = ", ".join(map(str, ids)) or "none"
        raise MachineError(f"{where} has no compute instance {wanted}", f"it has {known}")
    if not ids and needed:
        raise MachineError(f"{where} has no compute instance, so no process can use it", "give it one first")
    return wanted if wanted is not None else min(ids, default=None)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what the driver answers into a MachineError that says what was tried."""
    try:
        yield
    except NvmlFault as fault:
        raise MachineError(f"{doing}: {error_text(fault.code).lower()}", code=fault.code) from fault
