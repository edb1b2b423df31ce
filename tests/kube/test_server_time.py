"""The time of the API server as a client learns it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mig_manager.kube.server_time import ServerTime

SERVER = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DATE = format_datetime(SERVER, usegmt=True)
HOUR = timedelta(hours=1)


class Machine:
    """A machine whose clock is wrong by ``ahead``, and may be set."""

    def __init__(self, ahead: timedelta) -> None:
        self.wall = SERVER + ahead
        self.monotonic = 100.0
        self.time = ServerTime(lambda: self.wall, lambda: self.monotonic)

    def tick(self, seconds: float) -> None:
        """Time passes."""
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds


@pytest.mark.parametrize("ahead", [-HOUR, timedelta(), HOUR])
def test_before_any_answer_it_is_the_machines(ahead: timedelta) -> None:
    """Nothing else is known."""
    assert SERVER + ahead == Machine(ahead).time.now()


@pytest.mark.parametrize("ahead_s", [-2.0, -0.5, 0.0, 1.0, 3.0])
def test_clocks_that_agree_are_one(ahead_s: float) -> None:
    """To a second and two of courtesy: the machine's is the finer one."""
    machine = Machine(timedelta(seconds=ahead_s))
    machine.time.heard(DATE, 0.0)
    assert machine.wall == machine.time.now()


@pytest.mark.parametrize("ahead", [-HOUR, -timedelta(seconds=3), timedelta(seconds=4), HOUR])
def test_servers_word_counts_where_they_differ(ahead: timedelta) -> None:
    """In the middle of the second that it named, and time passes from there whatever the machine's clock does."""
    machine = Machine(ahead)
    machine.time.heard(DATE, 0.0)
    middle = SERVER + timedelta(seconds=0.5)
    assert middle == machine.time.now()
    machine.tick(7)
    machine.wall += HOUR
    assert middle + timedelta(seconds=7) == machine.time.now()


def test_answer_that_took_long_was_written_meanwhile() -> None:
    """Ten seconds of waiting are no difference of clocks; where there is one, half of them have passed."""
    machine = Machine(timedelta(seconds=10))
    machine.time.heard(DATE, 10.0)
    assert machine.wall == machine.time.now()
    machine = Machine(HOUR)
    machine.time.heard(DATE, 10.0)
    assert SERVER + timedelta(seconds=5.5) == machine.time.now()


def test_clock_that_was_set_right_is_believed_again() -> None:
    """At the next answer."""
    machine = Machine(HOUR)
    machine.time.heard(DATE, 0.0)
    machine.wall -= HOUR
    machine.time.heard(DATE, 0.0)
    machine.wall += timedelta(seconds=5)
    assert machine.wall == machine.time.now()


@pytest.mark.parametrize("date", [None, "", "soon", "Fri, 99 Jan 2026 03:04:05 GMT", "2026-01-02T03:04:05Z"])
def test_answer_without_a_date_says_nothing(date: str | None) -> None:
    """What was known before stays so."""
    machine = Machine(HOUR)
    machine.time.heard(date, 0.0)
    assert machine.wall == machine.time.now()
    machine.time.heard(DATE, 0.0)
    machine.time.heard(date, 0.0)
    assert SERVER + timedelta(seconds=0.5) == machine.time.now()


def test_date_without_a_zone_is_utc() -> None:
    """HTTP knows no other zone (RFC 9110), and Python makes none at all of ``-0000``."""
    machine = Machine(HOUR)
    machine.time.heard(DATE.replace("GMT", "-0000"), 0.0)
    assert SERVER + timedelta(seconds=0.5) == machine.time.now()
