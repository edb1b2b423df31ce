"""The product's command line with the time of every simulated NVML call written down.

``python -m tests.bench.timed FILE agent --node ...``: when each call began and ended, on the monotonic clock, which all
processes of a machine share. So the time of the simulation can be told from the agent's own.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TextIO

from mig_manager.cli.main import program
from mig_manager.sim.nvml.convert import Argument
from mig_manager.sim.nvml.library import Function


def write_down(out: TextIO) -> None:
    """Let every call from now on leave a line."""
    call = Function.__call__

    def timed(self: Function, *arguments: Argument) -> int | bytes:
        start = time.monotonic()
        try:
            return call(self, *arguments)
        finally:
            out.write(f"{start} {time.monotonic()}\n")

    Function.__call__ = timed  # type: ignore[method-assign]


def read(path: Path) -> list[tuple[float, float]]:
    """What was written down so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(float(start), float(end)) for start, end in (line.split() for line in lines)]


def main() -> None:
    """Run the command line."""
    path = sys.argv.pop(1)
    with Path(path).open("a", buffering=1) as out:
        write_down(out)
        program.main(prog_name="mig-manager")


if __name__ == "__main__":
    main()
