"""The host's ``/proc``, as files that say who uses which card."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mig_manager.sim.model.capabilities import mig_minors
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.processes import device_files


class FakeProc:
    """The host's ``/proc``, as far as anybody looks."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root, self.machine = root, machine
        minors = root / "driver/nvidia-caps/mig-minors"
        minors.parent.mkdir(parents=True)
        minors.write_text(mig_minors(machine.read()))

    def files(self, card: str | int, gpu_instance: int | None = None, compute: int | None = None) -> list[str]:
        """What a program opens to use a card, or a slice of it."""
        return device_files(self.machine.card(card), gpu_instance, compute)

    def add(self, pid: int, command: str, files: Sequence[str] = (), *, pod_uid: str = "") -> None:
        """A process with these files open; of that pod, or of the host itself."""
        directory = self.root / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "comm").write_text(f"{command[:15]}\n")
        slice_name = f"kubepods.slice/kubepods-pod{pod_uid.replace('-', '_')}.slice/x.scope"
        (directory / "cgroup").write_text(f"0::/{slice_name if pod_uid else 'system.slice/x.service'}\n")
        for number, file in enumerate(files):
            (directory / "fd" / str(number)).symlink_to(file)

    def remove(self, pid: int) -> None:
        """The process ends."""
        shutil.rmtree(self.root / str(pid))
