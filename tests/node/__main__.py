"""``python -m tests.node [PYTEST ARGUMENT ...]``: run these tests in namespaces of their own, or say why not."""

from __future__ import annotations

import sys

from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.progress import shown
from tests.node.enter import run_inside, why_not


def main(arguments: list[str]) -> int:
    """Run pytest inside and return its exit status; 0 with one line on a machine on which that cannot be."""
    reason = why_not()
    if reason:
        print(f"skipping the tests on a real node: {reason}")
        return 0
    with shown() as report:
        programs = find(report)
    if not programs.has("kubelet"):
        print(f"skipping the tests on a real node: there is no kubelet in {programs.directory}")
        return 0
    return run_inside([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or ["tests/node"])])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
