"""The agents of a soak wait less long of themselves."""

from __future__ import annotations

import subprocess
import sys

TEXT = """
from mig_manager.agent import outcome, pacing, preflight, program
from mig_manager.agent.steps import take_up
from tests.soak.hasty import hurry
hurry()
settings = program.Settings("n1", (), "lease", "namespace")
print(outcome.FIRST_RETRY_S, outcome.LONGEST_RETRY_S, outcome.LONGEST_REST_S, pacing.LONGEST_S)
print(preflight.MAINTENANCE_RETRY_S, take_up.IDLE_RETRY_S, settings.resync_s, settings.look_s)
"""


def test_waits_are_short() -> None:
    """All that count in hours and minutes; in a process of its own, as it is for good."""
    done = subprocess.run([sys.executable, "-c", TEXT], capture_output=True, text=True, check=True)
    assert "3.0 30.0 30.0 30.0\n3.0 3.0 60.0 3.0\n" == done.stdout
