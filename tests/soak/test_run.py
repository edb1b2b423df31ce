"""A soak that ends early says so, and why."""

from __future__ import annotations

from typing import cast

import pytest

from mig_manager.kube.errors import UnavailableError
from tests.soak.report import Report
from tests.soak.run import soak
from tests.soak.site import Site


class Broken:
    """A site on which nothing works."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def build(self) -> None:
        """Fail."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnavailableError("listing pods", "timed out"), "UnavailableError: listing pods: timed out"),
        (AssertionError("still waiting: the agent's pod\nlogs"), "AssertionError: still waiting: the agent's pod"),
        (ConnectionError("refused"), "ConnectionError: refused"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
    ],
)
def test_interrupted(error: BaseException, said: str) -> None:
    """Not well, in one line; the report can be shown."""
    report = Report(nodes=2, seed=1)
    soak(cast("Site", Broken(error)), report, 3, print)
    assert [f"ended early: {said}"] == report.problems()


def test_defect() -> None:
    """An error of the soak itself is raised, and the report does not call it well."""
    report = Report(nodes=2, seed=1)
    with pytest.raises(KeyError):
        soak(cast("Site", Broken(KeyError("n1"))), report, 3, print)
    assert ["ended early: KeyError: 'n1'"] == report.problems()
