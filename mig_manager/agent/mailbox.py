"""The bell between the informer and the worker: many deliveries while somebody works are one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class News:
    """What of a MIGNode is news: another object, another spec, or its end. Our own status patches are none of these."""

    uid: str
    generation: int
    ending: bool

    @classmethod
    def of(cls, obj: Mapping[str, Any], *, deleted: bool = False) -> News:
        """What an object says; ``deleted`` when it was the last that was heard of it."""
        metadata = obj["metadata"]
        return cls(metadata["uid"], metadata["generation"], deleted or "deletionTimestamp" in metadata)


class Mailbox:
    """Latest value wins: it only says that there is something to look at; the worker reads it from the source."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._news: News | None = None
        self._closed = False

    def deliver(self, news: News) -> None:
        """Leave the latest news, instead of what nobody has taken yet."""
        with self._changed:
            self._news = news
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

    def wait(self, timeout_s: float, known: News | None = None) -> bool:
        """Wait for news, at most so long, and take them; whether there were any that the caller did not know."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._news not in (None, known), timeout_s)
            news, self._news = self._news, None
            return news not in (None, known)
