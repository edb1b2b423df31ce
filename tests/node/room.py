"""The first process of the room: it makes a place for files and a network, runs the command, and reaps.

Nodes hang on a bridge without an uplink, so nothing leaves the room. The API server listens at the cluster's service
address, which takes neither kube-proxy nor a firewall: every node's route leads here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from mig_manager.sim.controlplane.runner import SERVICE_ADDRESS
from tests.node.enter import INSIDE

ROOM = Path("/run/room")
BRIDGE = "nodes"
GATEWAY = "10.88.0.1"


def run(*command: str) -> None:
    """Run a program that must succeed."""
    subprocess.run(command, check=True)


def main(command: Sequence[str]) -> int:
    """Prepare the room and run the command in it; its exit status."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "room", "/run")
    for directory in (ROOM, ROOM / "tmp", Path("/run/netns"), Path("/run/lock")):
        directory.mkdir()
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    environment = {**os.environ, INSIDE: str(ROOM), "TMPDIR": str(ROOM / "tmp")}
    child = subprocess.Popen(command, env=environment)

    def forward(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    # Ctrl-C reaches pytest by itself, as the terminal sends it to the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    while True:
        # The first process of a pid namespace inherits all orphans.
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
