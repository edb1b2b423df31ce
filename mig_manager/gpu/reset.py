"""Making a pending MIG mode current: by a reset of cards, or by a reboot of the machine.

NVML has no such call; nvidia-smi resets. It does not reset a card that is passed through to this machine, and some such
resets report success and change nothing (NVIDIA MIG User Guide, "Enable MIG Mode"): then a reboot is what is left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from mig_manager.geometry.state import Card
from mig_manager.gpu.journal import StuckMeans
from mig_manager.gpu.port import GpuError, InUseError, NotSupportedError
from mig_manager.gpu.tools import ROOT, ToolError, run_tool

# What nvidia-smi says of a reset that it does not do, in its own words.
_IN_USE = re.compile(r"\bin use\b|being used", re.IGNORECASE)
_NOT_SUPPORTED = re.compile(r"not supported", re.IGNORECASE)

HIDDEN_HOLDERS = "nvidia-persistenced, DCGM, an X server or nvidia_drm may hold it without being listed"


class PendingError(GpuError):
    """A MIG mode did not become current. ``means`` says what was tried, ``gpu_uuids`` on which cards."""

    def __init__(self, doing: str, text: str, means: StuckMeans, gpu_uuids: Collection[str], code: int = 0) -> None:
        self.means: StuckMeans = means
        self.gpu_uuids = frozenset(gpu_uuids)
        super().__init__(doing, text, code)


class RebootingError(Exception):
    """The machine is about to go down. The change stays open, for whoever comes up with the machine."""


class Reset(Protocol):
    """Resets cards together, everything on them included.

    GpuError when that fails: InUseError while somebody uses one of them, NotSupportedError where there is no reset.
    """

    def __call__(self, cards: Sequence[Card]) -> None:
        """Reset exactly these cards, which together are whole reset groups."""
        ...


class NvidiaSmiReset:
    """``nvidia-smi -r -i <bus ids>``, below ``root``, where the driver's container has its files."""

    def __init__(self, root: Path = ROOT, command: Sequence[str] = ("nvidia-smi",), timeout_s: float = 300) -> None:
        self._root = root
        self._command = tuple(command)
        self._timeout_s = timeout_s

    def __call__(self, cards: Sequence[Card]) -> None:
        """Reset the cards; GpuError with nvidia-smi's own last words."""
        act = f"resetting {', '.join(card.label for card in cards)}"
        command = [*self._command, "-r", "-i", ",".join(card.bus_id for card in cards)]
        try:
            run_tool(command, self._timeout_s, self._root)
        except ToolError as error:
            if _IN_USE.search(error.said):
                raise InUseError(act, f"{error}; {HIDDEN_HOLDERS}", error.code) from error
            kind = NotSupportedError if _NOT_SUPPORTED.search(error.said) else GpuError
            raise kind(act, str(error), error.code) from error
