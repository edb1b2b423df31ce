"""Waits between attempts to reach the API server."""

from itertools import islice

from mig_manager.kube.backoff import EndlessBackoffs


def test_waits_grow_to_a_minute_and_never_end() -> None:
    """The first is short, the later ones are between half a minute and a minute, and there is always another."""
    waits = list(islice(EndlessBackoffs(), 100))
    assert waits[0] <= 1
    assert all(0.5 <= wait <= 60 for wait in waits)
    assert min(waits[20:]) >= 30
