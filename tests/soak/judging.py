"""The promises, judged over everything that has happened so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mig_manager.kube.kinds import MIG_NODE, POD
from tests.e2e.observer import evictions, judge_budget, judge_cordons, judge_outages
from tests.e2e.plane import WORK
from tests.e2e.recorder import Event
from tests.soak.allowance import Allowance
from tests.soak.site import Site
from tests.soak.workloads import budgets

LAG_S = 15.0
"""So late, on a busy machine, the disruption controller may hear of pods that were deleted or rebooted."""


@dataclass(frozen=True)
class Counts:
    """What the product has done."""

    changes: int = 0
    failed: int = 0
    evicted: int = 0
    destroyed: int = 0
    most_out: int = 0


class Judge:
    """Looks at the site's history. A promise is broken once and for all, so the first one ends it."""

    def __init__(self, site: Site, allowance: Allowance) -> None:
        self._site = site
        self._allowance = allowance

    def judge(self, *, calm: bool) -> str:
        """What was broken, in a sentence; empty while nothing is."""
        site, names = self._site, list(self._site.hosts)
        history = site.plane.recorder.history()
        try:
            site.observer.judge_slices()
            judge_outages(history, names, self._allowance.at)
            judge_cordons(history, names, calm=calm)
            for labels, least in budgets(site.count):
                judge_budget(history, labels, least, LAG_S)
        except AssertionError as error:
            # Behind the first line pytest explains the comparison.
            return str(error).splitlines()[0]
        return self._processes()

    def counts(self, by_hand: int) -> Counts:
        """What was done so far; ``by_hand`` slices were not destroyed by the product."""
        history = self._site.plane.recorder.history()
        work = [e for e in history if e.kind is not POD or e.body["metadata"]["namespace"] == WORK]
        ended = _ended(history)
        names = self._site.hosts
        return Counts(
            changes=sum(result == "Applied" for result in ended.values()),
            failed=sum(result == "Failed" for result in ended.values()),
            evicted=len(evictions(work, names) - self._site.workloads.evicted),
            destroyed=self._site.observer.slices_gone() - by_hand,
            most_out=judge_outages(history, names, len(names)),
        )

    def _processes(self) -> str:
        for process in self._site.processes:
            complaints = process.complaints()
            if complaints:
                return f"{process.name} has logged: {complaints[0]}"
            if process.ended_by_itself:
                return f"{process.name} has ended by itself: {process.tail().splitlines()[-1]}"
        return ""


def _ended(history: list[Event]) -> dict[tuple[str, Any], str]:
    """How each grant ended, by node and number."""
    found = {}
    for event in history:
        if event.kind is MIG_NODE:
            grant = event.body.get("status", {}).get("grant") or {}
            if grant.get("state") == "Released":
                found[event.name, grant["id"]] = str(grant.get("result", ""))
    return found
