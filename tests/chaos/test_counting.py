"""What the matrices count is what they did, and a violation cannot get lost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import counting
from tests.chaos.counting import Checks, Matrix, fixed_part, must
from tests.chaos.summary import Summary

Report = Callable[..., Any]


def report(when: str, *, failed: bool = False, **figures: object) -> Any:  # noqa: ANN401 - as pytest makes them
    """How a phase of a test went."""
    return SimpleNamespace(when=when, failed=failed, nodeid="t", user_properties=list(figures.items()))


def test_checks_are_counted_whether_they_hold_or_not() -> None:
    """One look, one check."""
    before = Checks.made
    must(true=True, said="")
    with pytest.raises(AssertionError, match="broken"):
        must(true=False, said="broken")
    assert before + 2 == Checks.made


def test_a_violation_does_not_end_the_matrix() -> None:
    """The next variant is tried too, and in the end all violations are told."""
    found = Matrix()
    for n in range(3):
        with found.attempt(f"variant {n}", kills=1, faults=2):
            must(n != 1, "a promise")
    with found.attempt("a defect"):
        assert int("oops")
    assert (3, 6, 2) == (found.counts.kills, found.counts.faults, found.counts.violations)
    with pytest.raises(
        AssertionError, match=r"(?s)2 violations.*variant 1: AssertionError: a promise.*ValueError: invalid"
    ):
        found.judge()


def test_figures_of_all_tests_are_added_up() -> None:
    """Once per test, with what its last phase knows."""
    summary = Summary()
    for _ in range(2):
        summary.pytest_runtest_logreport(report("call", kills=5))
        summary.pytest_runtest_logreport(report("teardown", scenarios=1, kills=5, checks=70, other="x"))
    assert "2 scenarios, 10 kills, 0 faults, 140 checks, 0 violations" == summary.counts.line()


def test_a_test_that_fails_in_another_way_is_a_violation() -> None:
    """In its set-up or its end, or because it cannot even be read; what was counted is not counted twice."""
    summary = Summary()
    summary.pytest_runtest_logreport(report("setup", failed=True))
    summary.pytest_runtest_logreport(report("teardown"))
    assert 1 == summary.counts.violations
    summary.pytest_runtest_logreport(report("teardown", failed=True, violations=3))
    assert 4 == summary.counts.violations
    summary.pytest_collectreport(SimpleNamespace(failed=True))  # type: ignore[arg-type]
    assert 5 == summary.counts.violations


def test_which_points_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is the same in every run and begins anywhere; or as many as are asked for."""
    monkeypatch.setattr(counting, "EVERY", 0)
    assert list(fixed_part(100, 30, "busy")) == list(fixed_part(100, 30, "busy"))
    assert {1 + n for n in range(30)} >= {fixed_part(100, 30, name).start for name in ("busy", "plain")}
    monkeypatch.setattr(counting, "EVERY", 1)
    assert list(range(1, 101)) == list(fixed_part(100, 30, "busy"))
