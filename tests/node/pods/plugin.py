"""The simulated device plugin as a program: it offers the devices of the node's simulated cards to its kubelet."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.plugin import DevicePlugin
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.program import ProgramCrash
from tests.node.pods import ending

DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
POLL_S = 0.2


def main(machine: str) -> None:
    """Serve until told to end; a layout that the plugin refuses ends it with 1."""
    ending.listen()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = Strategy(os.environ["MIG_STRATEGY"])
    plugin = DevicePlugin(Machine.open(machine), DEVICE_PLUGINS, strategy, time.monotonic)
    try:
        plugin.start()
        print(f"offering {sorted(plugin.devices)}", flush=True)
        while not ending.asked.wait(POLL_S):
            plugin.poll()
    except ProgramCrash as crash:
        sys.exit(f"error: {crash}")
    finally:
        plugin.stop()


if __name__ == "__main__":
    main(sys.argv[1])
