"""Step 8: no new pod comes to the node."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.results import CONTINUE, StepResult


def cordon(ctx: Context) -> StepResult:
    """While there is work the node is unschedulable, by somebody else or by us. Rule A4.

    If it is us, the annotation that says so is part of the same patch.

    A crash before the patch leaves nothing, after it our cordon under a hold.
    """
    return acts.cordon(ctx) if ctx.work is not None and ctx.work.changes else CONTINUE
