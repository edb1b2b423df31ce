"""Control groups (version 1) of our own below those that this process is in, so that all limits on it stay in force."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""What the kubelet and runc use."""

SYSTEMD = "name=systemd"
_CPUSET = ("cpuset.cpus", "cpuset.mems")


def hierarchies() -> dict[str, Path]:
    """The directory of this process' group in every hierarchy, by what to mount it with; empty without version 1."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, group = line.split(":", 2)
        directory = ROOT / names.removeprefix("name=")
        # In a container the mount may show less than the path says.
        inner = directory / group.lstrip("/")
        if names and directory.is_dir():
            found[names] = inner if inner.is_dir() else directory
    known = {name for names in found for name in names.split(",")}
    return found if known.issuperset(CONTROLLERS) else {}


def create(name: str) -> None:
    """Make a group of that name below this process' in every hierarchy. OSError when that is not allowed."""
    for directory in hierarchies().values():
        group = directory / name
        group.mkdir(exist_ok=True)
        for file in _CPUSET:
            # A new group of this controller has no CPUs at all, and takes no process until it has.
            if (directory / file).exists():
                (group / file).write_text((directory / file).read_text())


def join(name: str) -> None:
    """Move this process into the groups of that name."""
    for directory in hierarchies().values():
        (directory / name / "cgroup.procs").write_text(str(os.getpid()))


def remove(name: str) -> bool:
    """Remove the groups of that name and below; whether they are gone. One with processes stays."""
    groups = [directory / name for directory in hierarchies().values()]
    for group in groups:
        for path, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()
    return not any(group.exists() for group in groups)
