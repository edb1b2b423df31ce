"""What a container of a simulated pod can run."""

from __future__ import annotations

from typing import Protocol


class ProgramCrash(Exception):  # noqa: N818 - not a defect of the caller: the program ended by itself
    """The program ended with this message; the kubelet starts it again after a backoff."""


class Program(Protocol):
    """A program in a container. The kubelet starts, polls and stops it, always from one thread."""

    def start(self) -> None:
        """Come up, or raise ProgramCrash."""
        ...

    def poll(self) -> None:
        """Do what the program would do by itself in the meantime; ProgramCrash when it ends."""
        ...

    def stop(self) -> None:
        """End, however far it came, and leave nothing behind."""
        ...
