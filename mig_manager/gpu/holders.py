"""Which processes use what on a card, and who of all holders stands in the way of a destruction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, Holders, SliceKey, said
from mig_manager.gpu.hints import GHOST_HINT, holder_of, minds_resets_only
from mig_manager.gpu.port import GpuSession, InUseError, NotUnderstoodError
from mig_manager.gpu.proc import Instance, Opened, Processes, ProcTree, User

FindHolders = Callable[[GpuSession, Collection[str]], Holders]
"""Finds who uses the cards with these UUIDs, at this moment."""

_IN_USE = 19  # NVML_ERROR_IN_USE in nvml.h: what NVML itself would say


class HeldError(InUseError):
    """Something that was to go is used by ``holders``; it was not touched."""

    def __init__(self, doing: str, holders: Collection[Holder]) -> None:
        self.holders = tuple(sorted(holders))
        super().__init__(doing, f"used by {said(self.holders)}", _IN_USE)


class GhostHolderError(InUseError):
    """NVML goes on saying that something is in use, and nobody is to be seen who uses it."""

    def __init__(self, error: InUseError) -> None:
        super().__init__(error.doing, f"{error.text}; {GHOST_HINT}", error.code)


@dataclass(frozen=True, slots=True)
class Users:
    """The processes that use cards and slices; ``unreadable`` counts those whose open files nobody may look at."""

    found: Mapping[SliceKey, frozenset[User]] = field(default_factory=dict)
    unreadable: int = 0


FindUsers = Callable[[GpuSession, Collection[Card]], Users]
"""Finds the processes that use these cards, at this moment."""


def users_of(session: GpuSession, cards: Collection[Card], processes: Processes) -> Users:
    """Who uses the cards: the processes that NVML lists, and those with device files open.

    A process that has opened capabilities of a card uses exactly these slices. One that has opened the card and none
    of its capabilities uses the card as a whole: it is in the way of a reset and of a change of mode, not of other
    slices. What minds nothing but a reset does not count where none is needed.
    """
    found: dict[SliceKey, set[User]] = {}
    for card in cards:
        for process in session.processes(card.uuid):
            key = SliceKey(card.uuid, process.gpu_instance, process.compute_instance)
            _check(card, key, process.pid)
            found.setdefault(key, set()).add(processes.user(process.pid))
    scan = processes.scan()
    known = processes.capabilities() if any(opened.capabilities for opened in scan.opened) else {}
    for opened in scan.opened:
        places = [known[minor] for minor in opened.capabilities if minor in known]
        for card in cards:
            for key in _opened_of(card, opened, places):
                user = processes.user(opened.pid)
                if key.gpu_instance is not None or card.mode_change is ModeChange.RESET or not minds_resets_only(user):
                    found.setdefault(key, set()).add(user)
    return Users({key: frozenset(who) for key, who in found.items()}, scan.unreadable)


def _check(card: Card, key: SliceKey, pid: int) -> None:
    """A process on a slice that the card does not have may be on any: then nobody knows what is in use."""
    if not card.mig_current or key.gpu_instance is None:
        return
    instance = next((i for i in card.instances if i.id == key.gpu_instance), None)
    if instance is None or key.compute_instance not in (None, *(c.id for c in instance.compute)):
        where = f"{key.gpu_instance}" + (f"/{key.compute_instance}" if key.compute_instance is not None else "")
        problem = f"process {pid} uses GPU instance {where}, which is not there"
        raise NotUnderstoodError(f"reading the processes on {card.label}", problem)


def _opened_of(card: Card, opened: Opened, places: Collection[Instance]) -> Iterator[SliceKey]:
    """What of a card a process has opened."""
    inside = [place for place in places if place.card_minor == card.minor]
    parts = {place.gpu for place in inside if place.compute is not None}
    for place in inside:
        # Whoever opens a compute instance has to open its GPU instance too, and uses no other part of it by that.
        if place.compute is not None or place.gpu not in parts:
            yield SliceKey(card.uuid, place.gpu, place.compute)
    if not inside and card.minor in opened.cards:
        yield SliceKey(card.uuid)


def find_users(processes: Processes) -> FindUsers:
    """A finder that looks at these processes."""
    return lambda session, cards: users_of(session, cards, processes)


def holders_by(find: FindUsers) -> FindHolders:
    """Every process as a holder of its own, called ``pid 4711 (python)``."""

    def holders(session: GpuSession, gpu_uuids: Collection[str]) -> Holders:
        users = find(session, [session.card(uuid) for uuid in gpu_uuids])
        return {key: frozenset(map(holder_of, who)) for key, who in users.found.items()}

    return holders


process_users = find_users(ProcTree())
"""The processes of this host."""

process_holders = holders_by(process_users)
"""The same, as holders."""


def holders_of_compute(
    holders: Holders, uuid: str, instance: GpuInstance, compute: ComputeInstance
) -> frozenset[Holder]:
    """Everybody who uses the compute instance, or its GPU instance without saying which part."""
    return frozenset(
        holder
        for key, who in holders.items()
        if key.gpu_uuid == uuid and key.gpu_instance == instance.id and key.compute_instance in (None, compute.id)
        for holder in who
    )
