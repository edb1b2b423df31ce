"""``python -m mig_manager.sim.controlplane``: have the programs ready, building them if need be, and say where."""

from __future__ import annotations

import sys

from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.progress import shown


def main() -> int:
    """Print the directory with the programs; 1 when they cannot be had."""
    try:
        with shown() as report:
            programs = find(report)
    except ControlPlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for feature in programs.missing_features:
        sys.stderr.write(f"note: {feature}\n")
    sys.stdout.write(f"{programs.directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
