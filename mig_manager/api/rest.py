"""How long a node rests after an attempt that came to nothing: ``notBefore``, as agent and controller both read it.

Both read it by the API server's clock. Where that was far ahead when it was written and is right now, the moment is
years away; no attempt ever asks for more than the backoff can give, so what lies farther ahead counts as not set.
"""

from __future__ import annotations

from datetime import datetime

LONGEST_REST_S = 6 * 3600.0
"""After attempts that left the node as it was: each closes it for a while, and may evict whoever has come back."""


def rest_s(not_before: datetime | None, timeout_s: float, now: datetime) -> float:
    """For how many seconds nothing may be tried yet; 0 when it may, or when ``notBefore`` cannot be meant.

    ``timeout_s`` is the drain's: an attempt that took its whole time for nothing rests for that much at least.
    """
    if not_before is None or beyond_belief(not_before, timeout_s, now):
        return 0.0
    return max(0.0, (not_before - now).total_seconds())


def beyond_belief(not_before: datetime, timeout_s: float, now: datetime) -> bool:
    """Whether the moment is farther ahead than any rest, so that a clock was wrong when it was written, or is now.

    Both terms of a rest together, so that clocks of API servers that differ a little are believed.
    """
    return (not_before - now).total_seconds() > LONGEST_REST_S + timeout_s
