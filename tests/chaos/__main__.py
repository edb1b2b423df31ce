"""All matrices of kills and faults, with one line of counts at the end; run by ``make chaos``.

Arguments are passed to pytest: ``-k busy``, ``-n 4``, ``-m "not cluster"``. With CHAOS=10 in the environment every
tenth point is tried.
"""

from __future__ import annotations

import os
import sys

MATRICES = (
    "tests/agent/test_kills.py",
    "tests/agent/test_faults.py",
    "tests/agent/test_gpu_faults.py",
    "tests/agent/test_outages.py",
    "tests/gpu/test_kills.py",
    "tests/gpu/test_faults.py",
    "tests/drain/test_differential.py",
    "tests/e2e/test_agent_kills.py",
    "tests/e2e/test_outages.py",
)


def main(arguments: list[str]) -> int:
    """Run them and print the counts; the exit code is 0 only when nothing was violated."""
    os.environ.setdefault("CHAOS", "1")
    import pytest

    from tests.chaos.summary import Summary

    summary = Summary()
    code = pytest.main(["--quiet", "-p", "no:randomly", *MATRICES, *arguments], plugins=[summary])
    print(summary.counts.line())
    return 1 if summary.counts.violations else int(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
