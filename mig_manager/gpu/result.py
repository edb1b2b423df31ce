"""What came of applying a plan or of healing what a crash left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mig_manager.geometry.state import Card, Holder
from mig_manager.gpu.holders import GhostHolderError, HeldError
from mig_manager.gpu.parts import Event
from mig_manager.gpu.port import GpuError
from mig_manager.gpu.reset import PendingError


class Outcome(StrEnum):
    """How it ended. Only after ``Failed`` is it unknown what the cards look like."""

    APPLIED = "Applied"
    NOTHING_TO_DO = "NothingToDo"
    REFUSED = "Refused"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome with its reason.

    ``reason`` is one CamelCase word (InUse, Unplanned, GpuGone, ApplyFailed, GhostHolder, RebootRequired,
    RebootDidNotHelp, RollbackFailed or a plan's own) and ``message`` says it in one line; both are empty when all is
    well. ``holders`` are those that were in the way. ``calls`` are the changing calls that succeeded, those of a
    rollback included; ``cards`` are the cards concerned as they are now, as far as they could be read.
    """

    outcome: Outcome
    reason: str = ""
    message: str = ""
    holders: tuple[Holder, ...] = ()
    calls: tuple[Event, ...] = ()
    cards: tuple[Card, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the cards are as wanted."""
        return self.outcome in (Outcome.APPLIED, Outcome.NOTHING_TO_DO)


def reason_of(errors: Sequence[GpuError]) -> str:
    """What a change that failed with these errors is called.

    A mode that would not become current, and a user whom nobody can see, are cases apart.
    """
    pending = next((error for error in errors if isinstance(error, PendingError)), None)
    if pending is not None:
        return "RebootRequired" if pending.means == "reset" else "RebootDidNotHelp"
    return "GhostHolder" if any(isinstance(e, GhostHolderError) for e in errors) else "ApplyFailed"


def holders_in(errors: Sequence[GpuError]) -> tuple[Holder, ...]:
    """Everybody whom the errors name as being in the way."""
    return tuple(sorted({h for e in errors if isinstance(e, HeldError) for h in e.holders}))
