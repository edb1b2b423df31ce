"""What time it is for the API server, as the ``Date`` of its answers tells.

Moments that several machines compare (when a pod was created, since when a node is closed, until when it rests) are
only worth something by one clock, and the server's is the one that all of them hear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

BELIEVED_ALIKE = timedelta(seconds=2)
"""So far apart clocks count as the same: ``Date`` has whole seconds, and kept time is never quite equal."""

_SECOND = timedelta(seconds=1)


def _wall() -> datetime:
    return datetime.now(UTC)


class ServerTime:
    """This machine's clock while it agrees with the server's; else the server's last word and what has passed since.

    Two clocks are read: ``wall`` is the machine's, in UTC, and may jump; ``monotonic`` counts seconds and does not.
    """

    def __init__(self, wall: Callable[[], datetime] = _wall, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._told: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        """The present by the server's clock, in UTC; by this machine's before anything was heard."""
        told = self._told
        if told is None:
            return self._wall()
        then, at = told
        return then + timedelta(seconds=self._monotonic() - at)

    def heard(self, date: str | None, took_s: float) -> None:
        """Compare with the ``Date`` of an answer for which ``took_s`` seconds were waited.

        One without a date, as a proxy may give, says nothing. The server wrote it at some time of the waiting.
        """
        try:
            then = parsedate_to_datetime(date or "").replace(tzinfo=UTC)  # HTTP dates have no other zone
        except ValueError:
            return
        wall, latest = self._wall(), then + _SECOND + timedelta(seconds=took_s)
        alike = then - BELIEVED_ALIKE <= wall <= latest + BELIEVED_ALIKE
        self._told = None if alike else (then + (latest - then) / 2, self._monotonic())
