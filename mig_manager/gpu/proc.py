"""Processes of this host with NVIDIA's device files open, as the host's ``/proc`` tells.

NVML lists only what computes. A program that merely looks at a card (DCGM, a monitor, a display server) or sits in a
container that asked for no GPU has its device files open all the same, and they keep slices and cards in use:

- ``/dev/nvidia<M>`` is the card with minor number M;
- ``/dev/nvidia-caps/nvidia-cap<N>`` opens a GPU instance or a compute instance; which, is in
  ``/proc/driver/nvidia-caps/mig-minors`` (NVIDIA MIG User Guide, "Device Nodes and Capabilities").

To read another process' open files takes ``CAP_SYS_PTRACE`` (proc(5), ``/proc/pid/fd``), and ``CAP_DAC_READ_SEARCH``
where it is another user's: the directory is readable for its owner alone (proc_fd_permission in fs/proc/fd.c of Linux).
A process that has ended meanwhile is nobody; one that may not be looked at is counted, so that nobody takes it for
nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mig_manager.gpu.port import GpuError

_DEVICE = re.compile(r"/dev/(?:nvidia(\d+)|nvidia-caps/nvidia-cap(\d+))$")
_DELETED = " (deleted)"  # what Linux adds to the name of a file whose directory entry is gone
_MINOR = re.compile(r"gpu(\d+)/gi(\d+)(?:/ci(\d+))?/access (\d+)")
_POD = re.compile(r"[/-]pod([0-9a-f]{32}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?=[./]|$)", re.MULTILINE)
"""A pod's part of a control group's path: the kubelet's systemd driver writes ``-pod<uid>.slice`` with underscores, its
cgroupfs driver ``/pod<uid>``; a static pod's uid is a hash. Within another group's namespace paths begin anywhere."""


@dataclass(frozen=True, slots=True, order=True)
class User:
    """A process that uses a card or a slice.

    ``command`` is empty where it cannot be found out. ``pod_uid`` is that of its pod, empty for a process of the host
    itself, and ``None`` where nobody knows.
    """

    pid: int
    command: str = ""
    pod_uid: str | None = None

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})" if self.command else f"pid {self.pid}"


@dataclass(frozen=True, slots=True)
class Opened:
    """What one process has open: minor numbers of cards and of capabilities."""

    pid: int
    cards: frozenset[int]
    capabilities: frozenset[int]


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at all processes: who has device files open, and how many processes may not be looked at."""

    opened: tuple[Opened, ...] = ()
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """What a capability is for: a compute instance, or (``compute`` is ``None``) a GPU instance as such."""

    card_minor: int
    gpu: int
    compute: int | None


class Processes(Protocol):
    """The processes of a host."""

    def user(self, pid: int) -> User:
        """Who that is."""
        ...

    def scan(self) -> Scan:
        """Who has NVIDIA's device files open, this program itself left out; GpuError when nobody can be seen."""
        ...

    def capabilities(self) -> Mapping[int, Instance]:
        """What the capabilities are for, by minor number."""
        ...


class ProcTree:
    """The processes that a proc file system shows; ``root`` is where it is mounted."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = root

    def user(self, pid: int) -> User:
        """Who that is, as far as it is still there and belongs to this tree's process ids."""
        directory = self.root / str(pid)
        try:
            name = (directory / "comm").read_text(encoding="utf-8", errors="replace").strip()
            groups = (directory / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has just ended, or lives in another pid namespace
            return User(pid)
        # A program names itself as it likes.
        return User(pid, name if name.isprintable() else repr(name)[1:-1], pod_uid_in(groups))

    def scan(self) -> Scan:
        """Look at the open files of all processes; GpuError when there is no such tree."""
        found: list[Opened] = []
        unreadable = 0
        ours = self._self()
        for pid in self._pids():
            if pid == ours:
                continue
            cards: set[int] = set()
            capabilities: set[int] = set()
            try:
                for device in filter(None, map(_DEVICE.search, self._files(pid))):
                    card, capability = device.groups()
                    (capabilities if card is None else cards).add(int(capability or card))
            except PermissionError:
                unreadable += 1
            if cards or capabilities:
                found.append(Opened(pid, frozenset(cards), frozenset(capabilities)))
        return Scan(tuple(found), unreadable)

    def capabilities(self) -> Mapping[int, Instance]:
        """What the driver says; nothing where it knows no MIG."""
        try:
            text = (self.root / "driver/nvidia-caps/mig-minors").read_text(encoding="utf-8")
        except OSError:
            return {}
        return {
            int(minor): Instance(int(card), int(gpu), int(compute) if compute else None)
            for card, gpu, compute, minor in _MINOR.findall(text)
        }

    def _self(self) -> int | None:
        """This process, by the ids of that tree, which may be another pid namespace's than ours."""
        try:
            return int((self.root / "self").readlink().name)
        except OSError:
            return None

    def _pids(self) -> list[int]:
        try:
            with os.scandir(self.root) as entries:
                return sorted(int(entry.name) for entry in entries if entry.name.isdigit())
        except OSError as error:
            raise GpuError(f"looking for open device files in {self.root}", error.strerror or "", 0) from error

    def _files(self, pid: int) -> Iterator[str]:
        """What the open files of a process are called; PermissionError where that is not for us to know."""
        try:
            with os.scandir(f"{self.root}/{pid}/fd") as entries:
                for entry in entries:
                    yield _link(entry.path).removesuffix(_DELETED)
        except PermissionError:
            raise
        except OSError:  # it has ended
            return


def pod_uid_in(groups: str) -> str:
    """The uid of the pod that a process belongs to, from its ``/proc/pid/cgroup``; empty for none."""
    found = _POD.search(groups)
    return found[1].replace("_", "-") if found else ""


def _link(path: str) -> str:
    """What a link leads to; empty for a file that was closed meanwhile."""
    try:
        return os.readlink(path)  # noqa: PTH115 - a node has ten thousands of them
    except FileNotFoundError:
        return ""
