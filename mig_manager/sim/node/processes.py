"""The processes of simulated pods on the simulated cards: what makes a slice be in use."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from mig_manager.kube.podresources.values import physical_id
from mig_manager.sim.model.capabilities import capability_minor, mig_minors
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import CardState, Client, MachineState

FIRST_PID = 2**22 + 1
"""Beyond what Linux ever gives (PID_MAX_LIMIT), so that no simulated pid is that of a process of this machine."""

COMMAND = "python"
_MEMORY_MIB = 1024


class DeviceGoneError(Exception):
    """A container cannot start: its device is not there any more."""


class Processes:
    """The processes of pods on the cards of a machine; a pid is never used twice.

    ``proc`` is a directory in the manner of /proc: for every process it says which pod it belongs to (``cgroup``, as
    the kubelet names control groups with the systemd driver), what it is called (``comm``) and which device files it
    has open (``fd``); and what the capabilities of the driver are for (``driver/nvidia-caps/mig-minors``).
    """

    def __init__(self, machine: Machine, proc: Path) -> None:
        self.machine = machine
        self.proc = proc
        self._pids = itertools.count(FIRST_PID)
        proc.mkdir(parents=True, exist_ok=True)

    def next_pid(self) -> int:
        """A pid for something that is started by other means than ``start``, and ended by ``end``."""
        return next(self._pids)

    def start(self, name: str, pod_uid: str, devices: Iterable[str]) -> list[int]:
        """One process on each of the devices, or DeviceGoneError and none at all.

        A process that is given a card with MIG on uses its first slice, and none when there is no slice (CUDA's own
        rule: NVIDIA MIG User Guide, "CUDA Device Enumeration").
        """
        pids: list[int] = []
        wanted = [physical_id(device) for device in devices]
        if not wanted:
            return pids
        try:
            with self.machine.change() as state:
                for device in wanted:
                    card, place = find_device(state, device)
                    if place is None and card.mig_current:
                        place = next(_slices(card), None)
                        if place is None:
                            continue
                    pid = self.next_pid()
                    pids.append(pid)
                    instance, compute = place or (None, None)
                    # Described before anybody can see it on the card.
                    self._describe(pid, pod_uid, device_files(card, instance, compute))
                    self._describe_driver(state)
                    card.clients.append(Client(pid, name, instance, compute, _MEMORY_MIB))
        except DeviceGoneError:
            self._forget(pids)
            raise
        return pids

    def end_leftovers(self) -> None:
        """End every process of a simulated pod on the machine, whoever started it."""
        self.end({c.pid for card in self.machine.read().cards for c in card.clients if c.pid >= FIRST_PID})
        for entry in self.proc.iterdir():
            shutil.rmtree(entry, ignore_errors=True)

    def end(self, pids: Iterable[int]) -> None:
        """End processes; those that are gone already are no matter."""
        ending = set(pids)
        if not ending:
            return
        with self.machine.change() as state:
            for card in state.cards:
                card.clients = [c for c in card.clients if c.pid not in ending]
        self._forget(ending)

    def _describe(self, pid: int, pod_uid: str, files: Iterable[str]) -> None:
        directory = self.proc / str(pid)
        directory.mkdir(parents=True)
        slice_name = f"kubepods-besteffort-pod{pod_uid.replace('-', '_')}.slice"
        scope = f"cri-containerd-{pid:064x}.scope"
        (directory / "cgroup").write_text(f"0::/kubepods.slice/kubepods-besteffort.slice/{slice_name}/{scope}\n")
        (directory / "comm").write_text(f"{COMMAND}\n")
        (directory / "fd").mkdir()
        for number, file in enumerate(files, start=3):
            (directory / "fd" / str(number)).symlink_to(file)

    def _describe_driver(self, state: MachineState) -> None:
        minors = self.proc / "driver/nvidia-caps/mig-minors"
        minors.parent.mkdir(parents=True, exist_ok=True)
        minors.write_text(mig_minors(state))

    def _forget(self, pids: Iterable[int]) -> None:
        for pid in pids:
            shutil.rmtree(self.proc / str(pid), ignore_errors=True)


def device_files(card: CardState, instance: int | None, compute: int | None) -> list[str]:
    """What a program opens to use a card, or a slice of it."""
    minors = [capability_minor(card.minor, instance)] if instance is not None else []
    if instance is not None and compute is not None:
        minors.append(capability_minor(card.minor, instance, compute))
    capabilities = [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors]
    return ["/dev/nvidiactl", f"/dev/nvidia{card.minor}", *capabilities]


def find_device(state: MachineState, device: str) -> tuple[CardState, tuple[int, int] | None]:
    """The card of a device, and the GPU and compute instance if it is a slice; DeviceGoneError when there is none."""
    for card in state.cards:
        if card.uuid == device:
            return card, None
        for place in _slices(card):
            if mig_uuid(card.uuid, *place) == device:
                return card, place
    raise DeviceGoneError(f"nvidia-container-cli: device error: {device}: unknown device")


def _slices(card: CardState) -> Iterator[tuple[int, int]]:
    return ((i.id, c.id) for i in card.instances for c in i.compute)
