"""How long to wait before an API server is asked again."""

from __future__ import annotations

import random
from collections.abc import Iterator

LONGEST_BACKOFF_S = 60.0


class EndlessBackoffs:
    """Jittered waits between attempts to watch, growing to a minute and never ending.

    kopf's own are finite, and after the last one the process ends: a minute without an API server would restart every
    agent of a fleet at the same time.
    """

    def __iter__(self) -> Iterator[float]:
        """Begin with a short wait."""
        wait_s = 1.0
        while True:
            yield random.uniform(0.5, 1.0) * wait_s  # noqa: S311 - jitter
            wait_s = min(LONGEST_BACKOFF_S, wait_s * 2)
