"""Adding up what the tests of a run have counted, wherever in parallel they ran."""

from __future__ import annotations

import pytest

from tests.chaos.counting import Counts


class Summary:
    """A plugin of pytest. A test that fails without having counted a violation is one itself."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in how one phase of a test went; the figures are complete with the last."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when != "teardown":
            return
        figures = {name: int(str(value)) for name, value in report.user_properties if isinstance(value, int)}
        for name, count in figures.items():
            self.counts.add(name, count)
        if report.nodeid in self._failed and not figures.get("violations"):
            self.counts.violations += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tests that cannot even be read prove nothing."""
        if report.failed:
            self.counts.violations += 1
