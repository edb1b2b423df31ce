"""How much processes hold over time, and whether that grows.

Every process is warm after a while, and noise is everywhere: the median of the second quarter of its life is compared
with the median of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

LEAST_SAMPLES = 40
"""A shorter life says nothing."""

WINDOW_S = 20.0
"""Requests are counted over windows of this length."""


@dataclass(frozen=True)
class Figure:
    """What is measured; it may grow by a number or by a share, whichever is more, and is called flat."""

    name: str
    allowed: float
    share: float

    def grown(self, before: float, after: float) -> bool:
        """Whether it is more than that."""
        return after - before > max(self.allowed, self.share * before)


MEMORY = Figure("memory, MiB", 4.0, 0.05)
DESCRIPTORS = Figure("file descriptors", 2, 0.0)
THREADS = Figure("threads", 2, 0.0)
FIGURES = (MEMORY, DESCRIPTORS, THREADS)
REQUESTS = Figure("requests per minute", 60, 1.0)
"""Of all processes together. What is asked depends on what happens, which is another thing in every round."""


@dataclass(frozen=True)
class Trend:
    """``before`` and ``after`` are the medians of second and last quarter of ``samples`` values."""

    who: str
    figure: Figure
    before: float
    after: float
    samples: int

    @property
    def grown(self) -> bool:
        """Whether this is growth."""
        return self.figure.grown(self.before, self.after)


@dataclass
class Series:
    """One life of a process; values by figure, one for each sample."""

    who: str
    pid: int
    values: dict[Figure, list[float]] = field(default_factory=lambda: {figure: [] for figure in FIGURES})

    def add(self, sample: Sequence[float]) -> None:
        """Another sample: values in the order of ``FIGURES``."""
        for figure, value in zip(FIGURES, sample, strict=True):
            self.values[figure].append(value)

    @property
    def latest(self) -> tuple[float, ...]:
        """The last sample; empty when there is none."""
        return tuple(values[-1] for values in self.values.values() if values)

    def trends(self) -> list[Trend]:
        """One for each figure, none while the life was too short."""
        if len(self.values[MEMORY]) < LEAST_SAMPLES:
            return []
        return [trend(self.who, figure, values) for figure, values in self.values.items()]


def trend(who: str, figure: Figure, values: Sequence[float]) -> Trend:
    """Compare the quarters of at least four values."""
    quarter = len(values) // 4
    return Trend(who, figure, median(values[quarter : 2 * quarter]), median(values[-quarter:]), len(values))


def rates(counts: Sequence[tuple[float, int]], window_s: float = WINDOW_S) -> list[float]:
    """Requests per minute, window by window, from what a counter said when (seconds, rising)."""
    found = []
    start = counts[0] if counts else (0.0, 0)
    for at, count in counts:
        if at - start[0] >= window_s:
            found.append((count - start[1]) * 60 / (at - start[0]))
            start = (at, count)
    return found
