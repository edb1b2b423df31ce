"""The rounds: disturb, wait now and then until all has come to rest, judge, and at the end put everything right."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mig_manager.kube.errors import ClusterError
from mig_manager.kube.kinds import MIG_NODE
from tests.soak.acts import Acts
from tests.soak.allowance import Allowance
from tests.soak.disturbances import BALANCED, Chooser, Round
from tests.soak.judging import Judge
from tests.soak.meter import Meter
from tests.soak.report import Report
from tests.soak.site import Site

PAUSE_S = (0.2, 3.0)
"""Between two disturbances, and after the last of a round, a random time in seconds."""

REST_S = 300.0
"""So long everything may take to come to rest. Minutes, for a machine of two cores with twenty agents on it."""

HELP_AFTER_S = 30.0
"""Then the pods on nodes that say that pods are in the way are deleted, and again after as long."""

IN_THE_WAY = ("EvictionBlocked", "DrainTimeout", "DrainOverdue", "InUse", "BarePod", "WaitingForCompletion")
"""What such nodes say."""

CALM_S = 20.0
IDLE_S = 60.0

Say = Callable[[str], None]


@dataclass
class Soak:
    """A soak of a site that was built. ``say`` gets a line for every round."""

    site: Site
    report: Report
    chooser: Chooser
    rounds: int
    say: Say
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._allowance = Allowance(2)
        self._acts = Acts(self.site, self._allowance)
        self._judge = Judge(self.site, self._allowance)
        self._meter = Meter(self.site.processes)
        self._random.seed(self.report.seed)

    def run(self) -> None:
        """All of it; what is found stands in the report."""
        started = time.monotonic()
        try:
            self._come_to_rest()
            self.say(f"{self.site.count} nodes are at rest after {time.monotonic() - started:.0f} s")
            with self._meter:
                self._rounds()
        finally:
            self.report.seconds = time.monotonic() - started
            meter = self._meter
            self.report.trends, self.report.requests, self.report.lives = meter.trends(), meter.counts, meter.lives

    def _rounds(self) -> None:
        for number in range(1, self.rounds + 1):
            self._round(self.chooser.round(number))
            if self.report.problems():
                return
        self._end()

    def _round(self, chosen: Round) -> None:
        began = time.monotonic()
        for disturbance in chosen.disturbances:
            self._acts.do(disturbance)
            self.report.disturbances[disturbance.kind] += 1
            self._pause()
        self._acts.revive()
        self._pause()
        if chosen.rest:
            self._acts.ease()
            self._come_to_rest()
        self.report.rounds += 1
        self._judged(calm=chosen.rest and not self.report.stuck)
        memory, descriptors, threads = self._meter.most()
        parts = [
            f"round {chosen.number}/{self.rounds}",
            f"{time.monotonic() - began:.0f} s",
            f"{len(self.site.hosts) - len(self.site.unfinished())}/{len(self.site.hosts)} at rest",
            f"at most {memory:.0f} MiB {descriptors:.0f} fds {threads:.0f} threads",
            f"{sum(self._meter.requests().values())} requests",
            "; ".join(map(str, chosen.disturbances)) + ("; rest" if chosen.rest else ""),
        ]
        self.say(" | ".join(parts))

    def _end(self) -> None:
        """A wish that can be fulfilled everywhere, until it is; then nothing happens any more."""
        self._acts.settle()
        self.site.edit(profile=BALANCED)
        self._acts.ease()
        self._come_to_rest()
        self._judged(calm=not self.report.stuck)
        if self.report.problems():
            return
        time.sleep(CALM_S)
        before = self._meter.requests()
        time.sleep(IDLE_S)
        after = self._meter.requests()
        self.report.idle = {who: (count - before[who]) * 60 / IDLE_S for who, count in after.items()}

    def _come_to_rest(self) -> None:
        """Wait until every node is; a node that is not after the deadline is the report's ``stuck``."""
        start = helped = time.monotonic()
        while unfinished := self.site.unfinished():
            now = time.monotonic()
            if now - start > REST_S:
                name, why = next(iter(unfinished.items()))
                self.report.stuck = (
                    f"{len(unfinished)} nodes did not come to rest within {REST_S:.0f} s, "
                    f"{dict(Counter(unfinished.values()))}; {name}: {why}: {self.site.message(name)}"
                )
                return
            if now - helped > HELP_AFTER_S:
                helped = now
                for name, why in unfinished.items():
                    if why in IN_THE_WAY:
                        self.site.workloads.clear(name)
            time.sleep(1)
        self.report.rests += 1
        version = self.site.person.list(MIG_NODE).resource_version
        self._allowance.rest(int(version))

    def _judged(self, *, calm: bool) -> None:
        self.report.violation = self._judge.judge(calm=calm)
        self.report.counts = self._judge.counts(self._acts.slices_by_hand)

    def _pause(self) -> None:
        time.sleep(self._random.uniform(*PAUSE_S))


def soak(site: Site, report: Report, rounds: int, say: Say) -> None:
    """Build the site and soak it; what is found stands in the report, and why it ended early if it did."""
    try:
        site.build()
        Soak(site, report, Chooser(report.seed, list(site.hosts), site.lasting, rounds), rounds, say).run()
    except (ClusterError, OSError, AssertionError, KeyboardInterrupt) as error:
        report.interrupted = _said(error)
    except Exception as error:
        report.interrupted = _said(error)
        raise


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
