"""The processes of simulated pods on the simulated cards: what makes a slice be in use."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from mig_manager.kube.podresources.values import physical_id
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import CardState, Client, MachineState

FIRST_PID = 2**22 + 1
"""Beyond what Linux ever gives (PID_MAX_LIMIT), so that no simulated pid is that of a process of this machine."""

_MEMORY_MIB = 1024


class DeviceGoneError(Exception):
    """A container cannot start: its device is not there any more."""


class Processes:
    """Starts and ends processes on the cards of a machine; a pid is never used twice."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._pids = itertools.count(FIRST_PID)

    def start(self, name: str, devices: Iterable[str]) -> list[int]:
        """One process on each of the devices, or DeviceGoneError and none at all.

        A process that is given a card with MIG on uses its first slice, and none when there is no slice (CUDA's own
        rule: NVIDIA MIG User Guide, "CUDA Device Enumeration").
        """
        pids: list[int] = []
        wanted = [physical_id(device) for device in devices]
        if not wanted:
            return pids
        with self.machine.change() as state:
            for device in wanted:
                card, place = _find(state, device)
                if place is None and card.mig_current:
                    place = next(_slices(card), None)
                    if place is None:
                        continue
                pid = next(self._pids)
                pids.append(pid)
                instance, compute = place or (None, None)
                card.clients.append(Client(pid, name, instance, compute, _MEMORY_MIB))
        return pids

    def end_leftovers(self) -> None:
        """End every process of a simulated pod on the machine, whoever started it."""
        self.end({c.pid for card in self.machine.read().cards for c in card.clients if c.pid >= FIRST_PID})

    def end(self, pids: Iterable[int]) -> None:
        """End processes; those that are gone already are no matter."""
        ending = set(pids)
        if not ending:
            return
        with self.machine.change() as state:
            for card in state.cards:
                card.clients = [c for c in card.clients if c.pid not in ending]


def _find(state: MachineState, device: str) -> tuple[CardState, tuple[int, int] | None]:
    for card in state.cards:
        if card.uuid == device:
            return card, None
        for place in _slices(card):
            if mig_uuid(card.uuid, *place) == device:
                return card, place
    raise DeviceGoneError(f"nvidia-container-cli: device error: {device}: unknown device")


def _slices(card: CardState) -> Iterator[tuple[int, int]]:
    return ((i.id, c.id) for i in card.instances for c in i.compute)
