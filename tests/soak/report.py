"""What came out of it: a text for people, an object for programs, and whether all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from mig_manager.render.table import text_table
from tests.soak.disturbances import Kind
from tests.soak.judging import Counts
from tests.soak.series import FIGURES, REQUESTS, Trend, rates, trend

LEAST_WINDOWS = 30
"""Ten minutes: within a shorter time a single edit of the whole pool is most of what happens."""

IDLE_BUDGETS = {"agent": 9.0, "controller": 30.0}
"""Requests per minute when nothing happens. An agent makes one pass here, or two, which read three objects each; the
controller looks at its Lease and renews it every five seconds."""


@dataclass
class Report:
    """Filled while it goes on.

    ``violation`` is the first broken promise, ``stuck`` what did not come to rest, ``interrupted`` why it ended early
    otherwise. ``idle`` are the requests per minute of each process, by its name, at the end, when nothing happens.
    """

    nodes: int
    seed: int
    rounds: int = 0
    rests: int = 0
    seconds: float = 0.0
    disturbances: Counter[Kind] = field(default_factory=Counter)
    counts: Counts = field(default_factory=Counts)
    lives: int = 0
    trends: Sequence[Trend] = ()
    requests: Sequence[tuple[float, int]] = ()
    idle: Mapping[str, float] = field(default_factory=dict)
    violation: str = ""
    stuck: str = ""
    interrupted: str = ""

    def problems(self) -> list[str]:
        """Everything that is not well, one line each."""
        return list(self._problems())

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "nodes": self.nodes,
            "seed": self.seed,
            "rounds": self.rounds,
            "rests": self.rests,
            "seconds": round(self.seconds, 1),
            "disturbances": {str(kind): count for kind, count in sorted(self.disturbances.items())},
            "changes": self.counts.changes,
            "failed": self.counts.failed,
            "podsEvicted": self.counts.evicted,
            "slicesDestroyed": self.counts.destroyed,
            "mostNodesOut": self.counts.most_out,
            "processLives": self.lives,
            "trends": [_trend(t) for t in self.all_trends()],
            "idleRequestsPerMinute": {who: round(found, 1) for who, found in self.idle.items()},
            "problems": self.problems(),
        }

    def all_trends(self) -> list[Trend]:
        """Those of the processes, and that of the requests of all together."""
        per_minute = rates(self.requests)
        more = [trend("all", REQUESTS, per_minute)] if len(per_minute) >= LEAST_WINDOWS else []
        return [*self.trends, *more]

    def lines(self) -> list[str]:
        """The report as people read it."""
        done = ", ".join(f"{count} × {kind}" for kind, count in self.disturbances.most_common())
        counts = self.counts
        problems = self.problems()
        return [
            f"{self.rounds} rounds on {self.nodes} nodes in {self.seconds / 60:.1f} minutes, seed {self.seed}",
            f"disturbances: {done or 'none'}",
            f"done: {counts.changes} changes of layout, {counts.failed} failed; {counts.evicted} pods evicted",
            f"slices destroyed: {counts.destroyed}; nodes out at the same time: {counts.most_out} at most",
            f"came to rest: {self.rests} times",
            f"requests per minute when nothing happens: {self._idle()}",
            "",
            *text_table(*_table(self.all_trends()), right=("lives", "2nd quarter", "last", "grew most", "allowed")),
            f"{self.lives} lives of processes; judged are medians of the second quarter and of the last, of long ones",
            "",
            *(f"BROKEN: {problem}" for problem in problems),
            "not well" if problems else "all is well: no promise was broken, and nothing grows",
        ]

    def _problems(self) -> Iterator[str]:
        if self.violation:
            yield self.violation
        if self.stuck:
            yield self.stuck
        if self.interrupted:
            yield f"ended early: {self.interrupted}"
        for one in self.all_trends():
            if one.grown:
                yield f"{one.who}: {one.figure.name} went from {one.before:.1f} to {one.after:.1f}"
        for who, found in self.idle.items():
            if found > IDLE_BUDGETS[kind_of(who)]:
                yield f"{who}: {found:.1f} requests per minute when nothing happens"

    def _idle(self) -> str:
        """The process of each kind that asks most."""
        most = {
            kind: max((f for who, f in self.idle.items() if kind_of(who) == kind), default=None)
            for kind in IDLE_BUDGETS
        }
        said = (
            f"{kind} {found:.1f} (allowed: {IDLE_BUDGETS[kind]:.0f})"
            for kind, found in most.items()
            if found is not None
        )
        return ", ".join(said) or "not measured"


def _trend(found: Trend) -> Mapping[str, Any]:
    return {
        "who": found.who,
        "figure": found.figure.name,
        "secondQuarter": round(found.before, 1),
        "lastQuarter": round(found.after, 1),
        "samples": found.samples,
        "grown": found.grown,
    }


def _table(trends: Sequence[Trend]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """One row per kind of process and figure: medians over all of its lives, and the one that grew most."""
    rows: list[Sequence[object]] = []
    for who in dict.fromkeys(kind_of(t.who) for t in trends):
        for figure in (*FIGURES, REQUESTS):
            of = [t for t in trends if kind_of(t.who) == who and t.figure is figure]
            if of:
                most = max(t.after - t.before for t in of)
                before, after = (median(values) for values in ([t.before for t in of], [t.after for t in of]))
                allowed = f"{figure.allowed:g}" + (f" or {figure.share:.0%}" if figure.share else "")
                rows.append((who, figure.name, len(of), f"{before:.1f}", f"{after:.1f}", f"{most:+.1f}", allowed))
    return ("who", "what", "lives", "2nd quarter", "last", "grew most", "allowed"), rows


def kind_of(who: str) -> str:
    """``agent`` for the agents of all nodes."""
    return who.partition(" ")[0]
