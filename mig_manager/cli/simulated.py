"""The processes of a simulated machine, as holders are looked for among those of a real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mig_manager.gpu.proc import Instance, ProcTree, Scan, User
from mig_manager.sim.model.machine import Machine


class SimulatedProcesses:
    """The processes of a machine; what a simulated node knows of those of its pods is in the tree at ``root``."""

    def __init__(self, machine: Machine, root: Path | None = None) -> None:
        self._machine = machine
        self._tree = ProcTree(root) if root is not None else None

    def user(self, pid: int) -> User:
        """Who that is: as the tree says, or as the machine does."""
        user = self._tree.user(pid) if self._tree is not None else User(pid)
        if user.command:
            return user
        names = {client.pid: client.name for card in self._machine.read().cards for client in card.clients}
        return replace(user, command=names.get(pid, "ended"))

    def scan(self) -> Scan:
        """Who has device files open, as the tree says."""
        return self._tree.scan() if self._tree is not None else Scan()

    def capabilities(self) -> Mapping[int, Instance]:
        """What the capabilities are for, as the tree says."""
        return self._tree.capabilities() if self._tree is not None else {}
