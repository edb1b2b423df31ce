"""The promises that must hold on real nodes too, judged by what happened while a test ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.e2e.observer import judge_cordons, judge_outages
from tests.e2e.recorder import Event


def beginning_at(version: int, history: Sequence[Event]) -> list[Event]:
    """What happened after a version, and first of all how every object was then."""
    present: dict[str, Event] = {}
    for event in history:
        if event.version <= version:
            present[event.uid] = event
    known = [event for event in present.values() if not event.deleted]
    return [*sorted(known, key=lambda event: event.version), *(e for e in history if e.version > version)]


def judge(history: Sequence[Event], nodes: Iterable[str]) -> None:
    """AssertionError when more than one of these nodes was out at a time, or a person's cordon was lifted by us."""
    names = list(nodes)
    judge_outages(history, names, limit=1)
    judge_cordons(history, names)
