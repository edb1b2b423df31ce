"""The port to the GPUs of one machine: what the product needs of NVML, in values.

Every call names the card by UUID and the instance by id, never by index or position. A session is open only while
something is being done: a long-lived NVML client keeps instances busy and blocks resets.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card


class GpuError(Exception):
    """An NVML call that failed.

    ``doing`` names the act (``creating GPU instance 1g.10gb at 3 on GPU 1``), ``text`` is the library's own words,
    ``code`` its return code. ``reason`` is what a status calls it when the cards cannot be read for it.
    """

    reason: ClassVar[str] = "GpuError"

    def __init__(self, doing: str, text: str, code: int) -> None:
        self.doing = doing
        self.text = text
        self.code = code
        super().__init__(f"{doing}: {text}")


class InUseError(GpuError):
    """Something still uses what was to be destroyed or changed."""


class InsufficientResourcesError(GpuError):
    """There is no room at the place asked for."""


class NoPermissionError(GpuError):
    """The caller may not do this."""


class NotFoundError(GpuError):
    """The instance is not there (any more)."""


class NotSupportedError(GpuError):
    """The card or the driver cannot do this."""


class DriverNotReadyError(GpuError):
    """The library is missing, or the driver is not loaded or of another version. Worth trying again later."""

    reason = "DriverNotReady"


class GpuLostError(GpuError):
    """A card has fallen off the bus; it comes back with a reboot or not at all."""

    reason = "GpuLost"


class GpuNeedsResetError(GpuError):
    """A card does nothing any more until it is reset or the node rebooted."""

    reason = "GpuNeedsReset"


class NotUnderstoodError(GpuError):
    """The driver's answers contradict each other or mean nothing; nothing was changed because of them."""

    reason = "DriverNotUnderstood"

    def __init__(self, doing: str, problem: str) -> None:
        hint = "nothing is changed on that; if it stays so, compare with nvidia-smi mig -lgi and report it"
        super().__init__(doing, f"the driver's answers make no sense: {problem}; {hint}", 0)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that NVML sees on a card; the ids are ``None`` where it uses the card as a whole."""

    pid: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class ModeChangeResult:
    """What NVML said about a mode change: ``current`` and ``pending`` read back, ``status`` why they differ."""

    current: bool
    pending: bool
    status: str = ""


class GpuSession(Protocol):
    """An open session. Methods raise GpuError or one of its kinds."""

    def cards(self) -> tuple[Card, ...]:
        """Read every card with its profiles and instances, in index order."""
        ...

    def card(self, gpu_uuid: str) -> Card:
        """Read one card; NotFoundError when it is gone."""
        ...

    def processes(self, gpu_uuid: str) -> tuple[Process, ...]:
        """The compute and graphics processes on a card and on each of its slices."""
        ...

    def set_mig_mode(self, gpu_uuid: str, *, enabled: bool) -> ModeChangeResult:
        """Ask for a MIG mode and read back what came of it."""
        ...

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, placement: Placement) -> int:
        """Create a GPU instance at exactly that place and return its id."""
        ...

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        """Destroy a GPU instance; InUseError while it has compute instances or processes."""
        ...

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int, placement: Placement) -> int:
        """Create a compute instance of ``placement.size`` slices at ``placement.start`` and return its id."""
        ...

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance; InUseError while processes run on it."""
        ...


class Gpus(Protocol):
    """The GPUs of this machine."""

    def session(self) -> AbstractContextManager[GpuSession]:
        """Open NVML for a while; DriverNotReadyError when that is impossible right now."""
        ...
