"""Hard use for minutes: random edits, drains, kills, reboots and drifts on a fleet of simulated nodes.

Run by ``make soak``. A line for every round, a report at the end; exit code 1 when a promise was broken, a node did not
come to rest, or memory, file descriptors, threads or requests grow. The same seed chooses the same disturbances.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
from pathlib import Path

from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.progress import shown
from tests.e2e.plane import deployed
from tests.soak.report import Report
from tests.soak.run import soak
from tests.soak.site import Site

KEPT = Path("soak.log")


def main() -> int:
    """Soak, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--nodes", type=int, default=20, help="simulated nodes, each with an agent of 90 MiB (20)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of one to six disturbances (60)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses the disturbances (random)")  # noqa: S311 - no secret
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="the report's form (text)")
    options = parser.parse_args()
    # The simulated device plugins complain about cards that have no slices yet.
    logging.getLogger("mig_manager.sim").setLevel(logging.ERROR)
    with shown() as progress:
        programs = find(progress)
    report = Report(options.nodes, options.seed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="soak-") as directory,
            deployed(programs) as plane,
            Site(plane, Path(directory), options.nodes) as site,
        ):
            soak(site, report, options.rounds, _say)
            # After an interruption there may be nobody left who could be asked about objects.
            tails = "\n".join(process.tail() for process in site.processes)
            KEPT.write_text(tails if report.interrupted else site.explain())
    finally:
        # What was found before something else went wrong is shown too.
        print(json.dumps(report.to_dict(), indent=2) if options.output == "json" else "\n".join(report.lines()))
    if report.problems():
        _say(f"the ends of all logs, and the objects: {KEPT}")
    return int(bool(report.problems()))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
