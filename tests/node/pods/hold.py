"""A program that uses the simulated slices its container was given, from its start until SIGTERM.

It says under which process id the node knows it, as NVML does: that of the node's own /proc, mounted at ``HOST_PROC``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import Client
from mig_manager.sim.node.processes import DeviceGoneError, find_device
from tests.node.pods import ending

HOST_PROC = Path("/host/proc")
MEMORY_MIB = 1024


def main(file: str) -> None:
    """Use them; without the devices end with 1, as a container whose device is gone does not start."""
    ending.listen()
    machine = Machine.open(file)
    pid = int((HOST_PROC / "self").readlink().name)
    devices = os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")
    try:
        with machine.change() as state:
            for device in devices:
                card, place = find_device(state, device)
                instance, compute = place or (None, None)
                card.clients.append(Client(pid, "python", instance, compute, MEMORY_MIB))
    except DeviceGoneError as error:
        sys.exit(f"error: {error}")
    print(f"pid {pid} uses {', '.join(devices)}", flush=True)
    ending.asked.wait()
    with machine.change() as state:
        for card in state.cards:
            card.clients = [client for client in card.clients if client.pid != pid]


if __name__ == "__main__":
    main(sys.argv[1])
