"""Namespaces for a control plane and real nodes, and the promise that nothing of them stays.

A pid namespace ends with its first process, so whatever ends that one (Ctrl-C, SIGKILL, the end of this program) ends
everything. All files are on a tmpfs of the mount namespace and go with it. What would stay are empty control groups;
a janitor that outlives this program removes them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.node import cgroups

PROGRAMS = ("containerd", "ctr", "runc", "busybox", "unshare", "ip", "mount")
CNI_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("ptp", "host-local", "loopback")
INSIDE = "MIG_MANAGER_TEST_NODE_ROOM"
"""Names the room's directory to processes inside."""

_NAMESPACES = ("--mount", "--propagation=private", "--pid", "--net", "--uts", "--ipc", "--mount-proc")
_PACKAGES = "containerd runc containernetworking-plugins busybox-static iproute2 util-linux mount"
_PR_SET_PDEATHSIG = 1
_JANITOR_DEADLINE_S = 30.0


def cni_directory() -> Path | None:
    """Where the network plugins are that pods need."""
    fits = (d for d in CNI_DIRECTORIES if all((d / name).is_file() for name in CNI_PLUGINS))
    return next(fits, None)


def unshare_command() -> list[str]:
    """The start of a command line that runs a program as the first process of new namespaces."""
    return ["unshare", *_NAMESPACES, "--fork", "--kill-child"]


def why_not() -> str:
    """Why real nodes cannot be run on this machine, in one line; empty when they can."""
    if sys.platform != "linux":
        return "this is not Linux"
    if os.geteuid() != 0:
        return "it takes root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if cni_directory() is None:
        missing.append("CNI plugins")
    if missing:
        return f"{', '.join(missing)} missing; install them (Debian, Ubuntu: apt install {_PACKAGES})"
    return _no_groups() or _no_namespaces()


def _no_groups() -> str:
    if not cgroups.hierarchies():
        return "the machine has no control groups of version 1, the only ones that these nodes know"
    name = f"mig-manager-try-{os.getpid()}"
    try:
        cgroups.create(name)
    except OSError as error:
        return f"control groups cannot be made here: {error}"
    finally:
        cgroups.remove(name)
    return ""


def _no_namespaces() -> str:
    # An overlay is what containers are made of, and not every file system can be one's upper layer.
    script = (
        "mount -t tmpfs run /run && mkdir /run/upper /run/work &&"
        " mount -t overlay -o lowerdir=/var,upperdir=/run/upper,workdir=/run/work overlay /var"
    )
    tried = subprocess.run([*unshare_command(), "sh", "-c", script], capture_output=True, text=True, check=False)
    return f"namespaces with mounts cannot be made here: {tried.stderr.strip()}" if tried.returncode else ""


def room_name(pid: int) -> str:
    """The control group of the room that the process ``pid`` runs."""
    return f"mig-manager-nodes-{pid}"


def run_inside(command: Sequence[str]) -> int:
    """Run a command in the room and return its exit status; the room is gone on return."""
    name = room_name(os.getpid())
    cgroups.create(name)
    keep_open = _start_janitor(name)
    inside = [sys.executable, "-m", "tests.node.room", *command]
    process = subprocess.Popen([*unshare_command(), *inside], preexec_fn=lambda: _prepare(name))  # noqa: PLW1509 - one thread
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The terminal has sent it to pytest too, which tidies up and ends.
                continue
    finally:
        process.kill()
        process.wait()
        os.close(keep_open)


def _prepare(name: str) -> None:
    """In the child: be in the control groups of the room, and die with the parent."""
    cgroups.join(name)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _start_janitor(name: str) -> int:
    """Start a process that removes the control groups when this one has ended; it sees that by a pipe."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    os.close(writing)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(reading, 1):
        pass
    deadline = time.monotonic() + _JANITOR_DEADLINE_S
    # They can be removed as soon as the last process in them has ended.
    while not cgroups.remove(name) and time.monotonic() < deadline:
        time.sleep(0.1)
    os._exit(0)
