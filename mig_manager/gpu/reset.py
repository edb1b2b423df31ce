"""Resetting cards so that a pending MIG mode becomes current. NVML has no such call; nvidia-smi has."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from mig_manager.geometry.state import Card
from mig_manager.gpu.port import GpuError


class Reset(Protocol):
    """Resets cards together, everything on them included; GpuError when that is refused."""

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
            raise GpuError(act, f"{command[0]} failed with exit code {done.returncode}: {said}", done.returncode)
