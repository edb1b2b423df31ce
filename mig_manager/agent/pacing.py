"""How long to wait between passes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from mig_manager.agent.results import Done, StepResult, Wait

FIRST_S = 5.0
LONGEST_S = 300.0
JITTER = 0.2
LEAST_S = 0.05
"""Between two passes at least this, whatever asks for haste."""


@dataclass
class Pacing:
    """The distance to the next pass, from how the last ones ended.

    What is refused, and conflicts that go on, are looked at with doubling distance, per reason, up to five minutes;
    what is waited for, as soon as the step said. Everything is jittered, so that a fleet does not move in step.
    """

    resync_s: float
    random: random.Random = field(default_factory=random.Random)
    _reason: str = ""
    _times: int = 0

    def after(self, result: StepResult) -> float:
        """Seconds until the next pass."""
        if isinstance(result, Done):
            self._reason, self._times = "", 0
            return self._jittered(self.resync_s)
        reason = getattr(result, "reason", "")
        self._times = self._times + 1 if reason == self._reason else 1
        self._reason = reason
        if isinstance(result, Wait) and result.retry_after_s > 0:
            return self._jittered(min(result.retry_after_s, self.resync_s))
        first = LEAST_S if isinstance(result, Wait) else FIRST_S
        return self._jittered(min(LONGEST_S, first * 2 ** min(self._times - 1, 16)))

    def _jittered(self, seconds: float) -> float:
        return max(LEAST_S, seconds * self.random.uniform(1 - JITTER, 1 + JITTER))
