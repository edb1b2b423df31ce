"""How long the fuzz tests search: the same examples every time, and more with ``FUZZ=<factor>``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("FUZZ", "1"))


def fuzz(examples: int) -> settings:
    """Search so many examples: always the same ones, but with a factor new ones every time, kept when they fail."""
    return settings(
        max_examples=examples * FACTOR,
        deadline=None,
        derandomize=FACTOR == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


def one_line(message: object, source: str = "") -> None:
    """A message is one line that a terminal shows as it is, and names the source."""
    assert str(message).isprintable(), f"{str(message)!r} is not one line"
    assert source in str(message)
