"""The report says what is not well, and only then."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.soak.disturbances import Kind
from tests.soak.judging import Counts
from tests.soak.report import Report
from tests.soak.series import DESCRIPTORS, MEMORY, THREADS, Trend


def report() -> Report:
    """Of a soak in which all was well."""
    return Report(
        nodes=4,
        seed=7,
        rounds=10,
        rests=3,
        seconds=300,
        disturbances=Counter({Kind.REBOOT: 2, Kind.CORDON: 3}),
        counts=Counts(changes=12, failed=1, evicted=5, destroyed=30, most_out=2),
        lives=9,
        trends=[
            Trend("agent n1", MEMORY, 88.0, 88.5, 100),
            Trend("agent n2", MEMORY, 89.0, 88.5, 60),
            Trend("agent n1", DESCRIPTORS, 15, 15, 100),
            Trend("controller", THREADS, 3, 3, 100),
        ],
        requests=[(10.0 * n, 20 * n) for n in range(61)],
        idle={"agent n1": 3.0, "agent n2": 4.0, "controller": 24.0},
    )


def test_all_is_well() -> None:
    """No problem, and the figures of the run are told."""
    found = report()
    assert [] == found.problems()
    text = "\n".join(found.lines())
    assert "10 rounds on 4 nodes in 5.0 minutes, seed 7" in text
    assert "3 × cordon, 2 × reboot" in text
    assert "12 changes of layout, 1 failed; 5 pods evicted" in text
    assert "slices destroyed: 30; nodes out at the same time: 2 at most" in text
    assert "agent 4.0 (allowed: 9), controller 24.0 (allowed: 30)" in text
    assert "all is well" in text


def test_table() -> None:
    """One row for the agents of all nodes, with the one that grew most, and one for all requests."""
    rows = [line.split("  ") for line in report().lines()]
    cells = [[cell.strip() for cell in row if cell] for row in rows]
    assert ["agent", "memory, MiB", "2", "88.5", "88.5", "+0.5", "4 or 5%"] in cells
    assert ["all", "requests per minute", "1", "120.0", "120.0", "+0.0", "60 or 100%"] in cells


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"violation": "n1: slices in use were destroyed"}, "n1: slices in use were destroyed"),
        ({"interrupted": "listing pods: timed out"}, "ended early: listing pods: timed out"),
        ({"stuck": "2 nodes did not come to rest"}, "2 nodes did not come to rest"),
        ({"trends": [Trend("agent n1", MEMORY, 88.0, 99.0, 100)]}, "agent n1: memory, MiB went from 88.0 to 99.0"),
        (
            {"requests": [(10.0 * n, 20 * n if n < 30 else 100 * n) for n in range(61)]},
            "all: requests per minute went from 120.0 to 600.0",
        ),
        ({"idle": {"agent n1": 9.1}}, "agent n1: 9.1 requests per minute when nothing happens"),
        ({"idle": {"controller": 31.0}}, "controller: 31.0 requests per minute when nothing happens"),
    ],
)
def test_problem(change: dict[str, object], said: str) -> None:
    """Whatever is broken stands in the report, in both forms."""
    found = report()
    for name, value in change.items():
        setattr(found, name, value)
    assert [said] == found.problems()
    assert f"BROKEN: {said}" in found.lines()
    assert "not well" == found.lines()[-1]
    assert [said] == found.to_dict()["problems"]


def test_nothing_measured() -> None:
    """A soak that ended at once has a report too."""
    found = Report(nodes=1, seed=1)
    assert [] == found.problems()
    assert "disturbances: none" in found.lines()
    assert "requests per minute when nothing happens: not measured" in found.lines()


def test_json() -> None:
    """Everything is there, in plain values."""
    found = json.loads(json.dumps(report().to_dict()))
    assert {"cordon": 3, "reboot": 2} == found["disturbances"]
    assert (12, 5, 30, 2) == tuple(
        found[name] for name in ("changes", "podsEvicted", "slicesDestroyed", "mostNodesOut")
    )
    assert {
        "who": "agent n1",
        "figure": "memory, MiB",
        "secondQuarter": 88.0,
        "lastQuarter": 88.5,
        "samples": 100,
        "grown": False,
    } == found["trends"][0]


def test_few_requests_judge_nothing() -> None:
    """In a short run the rate of all requests says nothing."""
    found = report()
    found.requests = [(10.0 * n, 20 * n if n < 15 else 100 * n) for n in range(31)]
    assert [] == found.problems()
