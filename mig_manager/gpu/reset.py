"""Making a pending MIG mode current: by a reset of cards, or by a reboot of the machine.

NVML has no such call; nvidia-smi resets. It does not reset a card that is passed through to this machine, and some such
resets report success and change nothing (NVIDIA MIG User Guide, "Enable MIG Mode"): then a reboot is what is left.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Sequence
from typing import Protocol

from mig_manager.geometry.state import Card
from mig_manager.gpu.journal import StuckMeans
from mig_manager.gpu.port import GpuError, InUseError, NotSupportedError

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
    """``nvidia-smi -r -i <bus ids>``. ``command`` may go through chroot into a driver container's root."""

    def __init__(self, command: Sequence[str] = ("nvidia-smi",), timeout_s: float = 300) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s

    def __call__(self, cards: Sequence[Card]) -> None:
        """Reset the cards; GpuError with nvidia-smi's own last words."""
        act = f"resetting {', '.join(card.label for card in cards)}"
        command = [*self._command, "-r", "-i", ",".join(card.bus_id for card in cards)]
        try:
            done = subprocess.run(  # noqa: S603 - the command is configured by the administrator
                command, capture_output=True, text=True, errors="replace", timeout=self._timeout_s, check=False
            )
        except OSError as error:
            raise GpuError(act, f"{command[0]}: {error.strerror}", 0) from error
        except subprocess.TimeoutExpired as error:
            raise GpuError(act, f"{command[0]} did not finish within {self._timeout_s:g} s", 0) from error
        if done.returncode:
            said = " ".join((done.stderr + done.stdout).split()) or "said nothing"
            text = f"{command[0]} failed with exit code {done.returncode}: {said}"
            if _IN_USE.search(said):
                raise InUseError(act, f"{text}; {HIDDEN_HOLDERS}", done.returncode)
            kind = NotSupportedError if _NOT_SUPPORTED.search(said) else GpuError
            raise kind(act, text, done.returncode)
