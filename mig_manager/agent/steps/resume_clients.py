"""Step 15: the GPU clients are back, as they were."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.results import CONTINUE, StepResult


def resume_clients(ctx: Context) -> StepResult:
    """What was paused has its former labels, and what cannot be kept away is started anew.

    Whether the new device plugin sees the cards as they are is found out in ``await_advertised``.

    Pods are deleted before the annotation goes, so a crash in between deletes them once more, and nothing else.
    """
    acts.restart_clients(ctx)
    acts.resume(ctx)
    return CONTINUE
