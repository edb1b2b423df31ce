"""``notBefore`` is believed as far as an attempt can ask for a rest, whatever clock it was written by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mig_manager.agent.context import Verdict
from mig_manager.agent.outcome import released
from mig_manager.api.mignode_status import GrantResult, GrantStatus
from mig_manager.api.rest import LONGEST_REST_S, beyond_belief, rest_s

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TIMEOUTS = st.integers(min_value=1, max_value=86400)
RESULTS: tuple[GrantResult, ...] = ("Aborted", "RolledBack", "Failed")
YEARS_S = 30 * 365 * 86400.0


@given(st.floats(min_value=-YEARS_S, max_value=YEARS_S), TIMEOUTS)
def test_nobody_is_held_off_for_longer_than_the_longest_rest(ahead_s: float, timeout_s: int) -> None:
    """However wrong the clock was that wrote it."""
    rest = rest_s(NOON + timedelta(seconds=ahead_s), timeout_s, NOON)
    assert 0 <= rest <= LONGEST_REST_S + timeout_s


@given(
    st.sampled_from(RESULTS),
    st.integers(min_value=0, max_value=100),
    TIMEOUTS,
    st.booleans(),
    st.floats(min_value=-1, max_value=1),
)
def test_every_rest_that_is_asked_for_is_believed(
    result: GrantResult, attempts: int, timeout_s: int, drained: bool, skew: float
) -> None:
    """Whatever the backoff gives is waited for, by clocks that differ a little too."""
    verdict = Verdict(result, "X", "", rest_s=0.0 if drained else timeout_s)
    after = released(GrantStatus(id=1, state="Held", attempts=attempts), verdict, NOON).not_before
    assert after is not None
    now = NOON + timedelta(seconds=skew * min(60, timeout_s))
    assert not beyond_belief(after, timeout_s, now)
    assert max(0.0, (after - now).total_seconds()) == rest_s(after, timeout_s, now)


def test_no_rest_without_a_moment() -> None:
    """Nothing was asked for."""
    assert 0 == rest_s(None, 900, NOON)
