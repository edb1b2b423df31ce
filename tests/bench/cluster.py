"""What agent and controller cost on a real API server.

Run by ``make bench``; prints a table and fails only where a count of requests is over its budget.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.progress import shown
from tests.bench.agent import agent_measures
from tests.bench.controller import controller_measures
from tests.bench.measure import Measure, table
from tests.e2e.plane import deployed


def main() -> int:
    """Print all figures; exit code 1 when there were too many requests."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=1000, help="the size of the controller's pool (1000)")
    nodes = options.parse_args().nodes
    with shown() as report:
        programs = find(report)
    measures: list[Measure] = []
    try:
        with tempfile.TemporaryDirectory() as directory, deployed(programs) as plane:
            found, status = agent_measures(plane, Path(directory))
        measures += found
        measures += controller_measures(programs, nodes, status)
    finally:
        # What was measured before something went wrong is shown too.
        print("\n".join(table(measures)))
    return int(any(measure.broken for measure in measures))


if __name__ == "__main__":
    raise SystemExit(main())
