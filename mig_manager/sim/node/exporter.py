"""A simulated DCGM exporter: it holds every slice it found when it started, and NVML does not say so.

That is the worst that was reported of it (NVIDIA/DCGM issues 95 and 276): destroying an instance fails as in use, no
process is listed, and stopping the exporter frees it. Slices made later it does not know.
"""

from __future__ import annotations

from mig_manager.sim.model.state import Client
from mig_manager.sim.node.processes import Processes

COMMAND = "nv-hostengine"


class Exporter:
    """The exporter on the machine of ``processes``."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._pid = processes.next_pid()

    def start(self) -> None:
        """Open every GPU instance that is there."""
        with self._processes.machine.change() as state:
            for card in state.cards:
                for instance in card.instances:
                    card.clients.append(Client(self._pid, COMMAND, instance.id, None, 0, visible=False))

    def poll(self) -> None:
        """Nothing happens by itself: a new layout goes unnoticed."""

    def stop(self) -> None:
        """Let everything go."""
        self._processes.end([self._pid])
