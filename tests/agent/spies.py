"""Host file and kubelet as one agent process sees them: the real thing, with a point of time before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mig_manager.gpu.journal import Journal, Record
from mig_manager.kube.podresources.values import Devices, PodDevices
from tests.agent.process import Process

if TYPE_CHECKING:
    from tests.agent.worlds import World


class SpiedJournal(Journal):
    """The host file as one process sees it."""

    def __init__(self, path: Path, process: Process) -> None:
        super().__init__(path)
        self.process = process

    def read(self) -> Record:
        """Read it, unless the process is dead."""
        self.process.point("journal read")
        return super().read()

    def _write(self, record: Record) -> None:
        """Write, with a point before and after that says what for."""
        before = super().read()
        if record.intent is not None and before.intent is None:
            doing, done = "begin", "begun"
        elif record.last_good != before.last_good:
            doing, done = "close", "closed"
        elif record.intent is None and before.intent is not None:
            doing, done = "drop", "dropped"
        else:
            doing, done = "note", "noted"
        self.process.point(f"journal {doing}")
        super()._write(record)
        self.process.point(f"journal {done}")


@dataclass(frozen=True)
class SpiedKubelet:
    """The kubelet's PodResources API as one process sees it."""

    world: World
    process: Process

    def list(self) -> tuple[PodDevices, ...]:
        """What pods hold."""
        self.process.point("kubelet list")
        return self.world.kubelet_list()

    def allocatable(self) -> tuple[Devices, ...]:
        """What the plugin offers."""
        self.process.point("kubelet allocatable")
        return self.world.kubelet_allocatable()
