"""The bell between the informer and the worker: many rings while somebody works are one."""

from __future__ import annotations

import threading


class Mailbox:
    """Latest value wins: what is delivered is only that something is new; the worker reads it from the source."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rung = False
        self._closed = False

    def ring(self) -> None:
        """Something is new."""
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def close(self) -> None:
        """There will be no more; whoever waits is let go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return self._closed

    def wait(self, timeout_s: float) -> bool:
        """Wait for a ring, at most so long, and take it; whether there was one."""
        with self._changed:
            self._changed.wait_for(lambda: self._rung or self._closed, timeout_s)
            rung, self._rung = self._rung, False
            return rung
