"""Time that stands still until a test lets it pass."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class FakeClock:
    """Time that passes only when told to, or when somebody sleeps."""

    time: datetime = START

    def now(self) -> datetime:
        """The present."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)
