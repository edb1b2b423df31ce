"""The agent with its long waits cut short, so that minutes hold what takes hours elsewhere.

``python -m tests.soak.hasty agent --node ...``. Times that are compared with the API server's stay true: only how long
an agent waits of itself is a tenth of what it is, and after attempts in vain not more than half a minute.
"""

from __future__ import annotations

from functools import partial

from mig_manager.agent import outcome, pacing, preflight, program
from mig_manager.agent.context import Settings
from mig_manager.agent.steps import take_up
from mig_manager.cli.main import program as command_line

HASTE = 10


def hurry() -> None:
    """Cut them."""
    for module, names in (
        (outcome, ("FIRST_RETRY_S",)),
        (pacing, ("LONGEST_S",)),
        (preflight, ("MAINTENANCE_RETRY_S",)),
        (take_up, ("IDLE_RETRY_S",)),
    ):
        for name in names:
            setattr(module, name, getattr(module, name) / HASTE)
    # By name, as the modules import some of these from others.
    for name in ("LONGEST_RETRY_S", "LONGEST_REST_S"):
        setattr(outcome, name, 30.0)
    setattr(program, "Settings", partial(Settings, resync_s=60.0, look_s=3.0))  # noqa: B010 - a name that it imports


if __name__ == "__main__":
    hurry()
    command_line.main(prog_name="mig-manager")
