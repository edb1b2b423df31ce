"""Growth is found, and noise is none."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.soak.meter import held
from tests.soak.series import DESCRIPTORS, LEAST_SAMPLES, MEMORY, REQUESTS, THREADS, Figure, Series, rates, trend


def series(*samples: tuple[float, float, float]) -> Series:
    found = Series("agent n1", 1)
    for sample in samples:
        found.add(sample)
    return found


def grown(found: Series) -> list[Figure]:
    return [one.figure for one in found.trends() if one.grown]


def test_flat() -> None:
    """Warming up, noise and single peaks are no growth."""
    noise = random.Random(1)  # noqa: S311 - the same every time
    warm = [(50.0 + number, 10, 4) for number in range(10)]
    flat = [(88 + noise.uniform(-1, 1), 15 + noise.choice((0, 0, 1)), 8) for _ in range(90)]
    flat[70] = (300.0, 90, 50)
    assert [] == grown(series(*warm, *flat))


@pytest.mark.parametrize(
    ("leak", "figure"),
    [((0.2, 0, 0), MEMORY), ((0, 0.1, 0), DESCRIPTORS), ((0, 0, 0.1), THREADS)],
)
def test_leak(leak: tuple[float, float, float], figure: Figure) -> None:
    """What grows with every sample is found, and nothing beside it."""
    start = (88.0, 15, 8)
    samples = [tuple(int(s + n * more) for s, more in zip(start, leak, strict=True)) for n in range(100)]
    assert [figure] == grown(series(*[(a, b, c) for a, b, c in samples]))


def test_short_life() -> None:
    """A life that was too short says nothing, even when it was all growth."""
    samples = [(float(n), n, n) for n in range(LEAST_SAMPLES)]
    assert [] == series(*samples[:-1]).trends()
    assert [MEMORY, DESCRIPTORS, THREADS] == grown(series(*samples))


def test_tolerance() -> None:
    """By a number or by a share, whichever is more."""
    assert not MEMORY.grown(10, 14)
    assert MEMORY.grown(10, 14.1)
    assert not MEMORY.grown(200, 210)
    assert MEMORY.grown(200, 210.1)
    assert not MEMORY.grown(200, 100)


def test_latest() -> None:
    """The last sample, as soon as there is one."""
    assert () == series().latest
    assert (2.0, 3, 4) == series((1.0, 1, 1), (2.0, 3, 4)).latest


def test_rates() -> None:
    """Requests per minute over whole windows; what is left over at the end is dropped."""
    counts = [(100.0 + 5 * n, 10 * n) for n in range(11)]
    assert [120.0, 120.0] == rates(counts, 20.0)
    assert [] == rates([], 20.0)


def test_more_and_more_requests() -> None:
    """A rate that more than doubles is growth."""
    assert trend("all", REQUESTS, [100.0] * 6 + [201.0] * 6).grown
    assert not trend("all", REQUESTS, [100.0, 300.0, 90.0, 130.0] * 4).grown


def test_own_process() -> None:
    """What the kernel says of this process; a descriptor more is seen."""
    before = held(os.getpid())
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        after = held(os.getpid())
    finally:
        os.close(descriptor)
    assert before is not None
    assert after is not None
    assert before[0] > 1
    assert before[1] + 1 == after[1]
    assert before[2] >= 1


def test_process_that_has_ended() -> None:
    """It holds nothing, whether its parent has looked after it yet or not."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert held(process.pid) is None
    assert held(process.pid) is None
