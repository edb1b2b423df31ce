"""A soak so small that it is no burden, so that the large one works when it is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager.sim.controlplane.programs import Programs
from tests.e2e.plane import deployed
from tests.soak import run
from tests.soak.report import Report
from tests.soak.site import Site


def test_small_soak(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes, three rounds: no promise is broken, all comes to rest, and the report has figures."""
    for name in ("CALM_S", "IDLE_S"):
        monkeypatch.setattr(run, name, 1.0)
    monkeypatch.setattr(run, "PAUSE_S", (0.0, 0.5))
    monkeypatch.setattr(run, "HELP_AFTER_S", 5.0)
    report = Report(nodes=2, seed=3)
    lines: list[str] = []
    with deployed(programs) as plane, Site(plane, tmp_path, 2) as site:
        run.soak(site, report, 3, lines.append)
        explained = "\n".join([*lines, site.explain()])
    assert "" == report.violation, explained
    assert "" == report.stuck, explained
    assert (3, 4) == (report.rounds, len(lines))
    assert report.counts.changes >= 2
    assert set(report.idle) == {process.name for process in site.processes}
    assert 3 <= report.disturbances.total()
    assert report.lives >= 3
