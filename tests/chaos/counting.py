"""What the matrices of kills and faults count; and how they go on after a violation, to find all of them.

A matrix is one test that runs a story again and again, each time with another kill or fault. Every check of an
invariant is counted where it is made, so the figures at the end are of what was really looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import pytest

EVERY = int(os.environ.get("CHAOS", "0"))
"""Try every so many points: 1 is all of them. Without it each matrix tries a part that an ordinary run has time for."""

ALL = EVERY > 0
"""Whether the stories are told that an ordinary run leaves out."""

SHOWN = 5
"""How many violations of one matrix are told in full."""


class Checks:
    """How many checks of invariants this process has made."""

    made = 0


def must(true: object, said: str) -> None:
    """One check of an invariant: counted, and an AssertionError that says what is broken when it does not hold."""
    Checks.made += 1
    assert true, said


@dataclass
class Counts:
    """What was tried and checked."""

    scenarios: int = 0
    kills: int = 0
    faults: int = 0
    checks: int = 0
    violations: int = 0

    def add(self, name: str, count: int) -> None:
        """Add to one of them, by its name; other names are somebody else's."""
        if name in asdict(self):
            setattr(self, name, getattr(self, name) + count)

    def line(self) -> str:
        """All of them, in one line."""
        return (
            f"{self.scenarios} scenarios, {self.kills} kills, {self.faults} faults, {self.checks} checks, "
            f"{self.violations} violations"
        )


@dataclass
class Matrix:
    """What one test tries. A violation does not end it: the others want to be known too."""

    counts: Counts = field(default_factory=Counts)
    broken: list[str] = field(default_factory=list)

    def scenario(self) -> None:
        """Another story begins."""
        self.counts.scenarios += 1

    @contextmanager
    def attempt(self, what: str, *, kills: int = 0, faults: int = 0) -> Iterator[None]:
        """One variant of the story: whatever goes wrong in it is a violation, a defect of the product included."""
        self.counts.kills += kills
        self.counts.faults += faults
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            self.counts.violations += 1
            self.broken.append(f"{what}: {type(error).__name__}: {error}")

    def judge(self) -> None:
        """AssertionError, with the first violations, if there were any."""
        assert not self.broken, f"{len(self.broken)} violations, first of all:\n" + "\n".join(self.broken[:SHOWN])


@pytest.fixture
def matrix(record_property: Callable[[str, object], None]) -> Iterator[Matrix]:
    """A matrix that is judged at the end, and whose figures reach whoever counts them over all tests."""
    before = Checks.made
    found = Matrix()
    yield found
    found.counts.checks = Checks.made - before
    for name, count in asdict(found.counts).items():
        record_property(name, count)
    found.judge()


def fixed_part(points: int, stride: int, name: str) -> range:
    """The points to try, counted from 1: every ``stride``-th unless told otherwise, from one that the name decides."""
    step = EVERY or stride
    return range(1 + sum(map(ord, name)) % step, points + 1, step)
