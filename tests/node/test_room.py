"""Of namespaces with real nodes nothing stays on the machine, however they end: tried with a room inside the room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.waiting import until
from tests.node import cgroups
from tests.node.enter import room_name, why_not

SLEEP = "86399"
"""Seconds that nobody else on the machine sleeps."""


def sleepers() -> list[int]:
    """The processes that the inner room runs."""
    return [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline") if _words(p) == ["sleep", SLEEP]]


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split("\0")[:-1]
    except OSError:
        return []


def traces() -> tuple[str, list[str]]:
    """Mounts and network interfaces."""
    return Path("/proc/self/mounts").read_text(), sorted(p.name for p in Path("/proc/sys/net/ipv4/conf").iterdir())


@pytest.fixture
def launcher(room: None) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ARG001 - a place where that may be tried
    """A program that runs a room in which somebody sleeps."""
    code = f"from tests.node.enter import run_inside; run_inside(['sleep', '{SLEEP}'])"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_nothing_is_left(launcher: subprocess.Popen[bytes], end: str) -> None:
    """Killed, terminated, or interrupted with all its children, as Ctrl-C does."""
    before = traces()
    until("somebody to sleep", sleepers)
    groups = [directory / room_name(launcher.pid) for directory in cgroups.hierarchies().values()]
    assert all(group.is_dir() for group in groups)
    if end == "SIGINT":
        os.killpg(launcher.pid, signal.SIGINT)
    else:
        launcher.send_signal(signal.Signals[end])
    launcher.wait()
    until("everybody to be gone", lambda: not sleepers())
    until("the control groups to be gone", lambda: not any(group.exists() for group in groups))
    assert before == traces()


def test_this_machine_can(room: None) -> None:  # noqa: ARG001 - it is checked where it is known to be so
    """Where it runs there is nothing to complain of, and a missing program is named with what to install."""
    assert "" == why_not()


def test_missing_program(room: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it takes root
    """What is missing is named, with the packages that have it."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert why_not().startswith("containerd, ctr, runc, busybox, unshare, ip, mount missing; install them (")
