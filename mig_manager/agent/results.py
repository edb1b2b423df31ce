"""How a step of a pass can end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Continue:
    """What the step makes true is true; on to the next."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Something has to happen first; look again after ``retry_after_s``."""

    reason: str
    retry_after_s: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It must not be done as things are; looked at again with growing distance, or when something changes."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The node is as it shall be, and nothing of ours is left on it."""


StepResult = Continue | Wait | Refuse | Done
CONTINUE = Continue()

SOON_S = 3.0
"""How soon to look again at what is moving: a pass reads three objects, and one request a second is the budget. What
moves on this machine is seen earlier (``mig_manager.agent.drift``)."""

AT_ONCE_S = 0.0
"""Look again at once: what was read is no longer true."""

NOT_YET = "WaitingForTurn"
"""The reason for waiting where something is to be done and there is no grant for it."""
