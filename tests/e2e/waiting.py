"""Waiting for a condition, the only way in which these tests let time pass."""

from __future__ import annotations

import time
from collections.abc import Callable

from mig_manager.kube.errors import NotFoundError

DEADLINE_S = 180.0
"""Nothing here takes longer than a few seconds on an idle machine; CI machines are not idle."""

POLL_S = 0.1


def until(
    what: str,
    true: Callable[[], object],
    *,
    explain: Callable[[], str] = lambda: "",
    deadline_s: float = DEADLINE_S,
) -> None:
    """Poll until ``true``; what is not found counts as not yet. AssertionError, with the explanation, when too late."""
    deadline = time.monotonic() + deadline_s
    while not _holds(true):
        assert time.monotonic() < deadline, f"still waiting: {what}\n{explain()}"
        time.sleep(POLL_S)


def _holds(true: Callable[[], object]) -> bool:
    try:
        return bool(true())
    except NotFoundError:
        return False
