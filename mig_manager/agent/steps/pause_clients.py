"""Step 10: the programs that use the GPUs of every node are away."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.results import CONTINUE, StepResult
from mig_manager.agent.steps.stand_down import client_forbidden
from mig_manager.kube.errors import ForbiddenError


def pause_clients(ctx: Context) -> StepResult:
    """While there is work, device plugin, exporter and what else is configured are gone from the node.

    The kubelet offers nothing of theirs any more, and the former values stand in the annotation that was written in
    the same patch. Where the agent may not delete a client's pods, the work ends here.

    A crash after the patch leaves the pause under its annotation; whatever happens next, it is restored from there.
    """
    if ctx.work is None or not ctx.work.changes:
        return CONTINUE
    try:
        return acts.pause(ctx)
    except ForbiddenError as error:
        return client_forbidden(ctx, error)
