"""Step 17: the labels say what is exposed, the node is let back in, and last of all the grant is Released."""

from __future__ import annotations

from mig_manager.agent import acts, labels
from mig_manager.agent.context import Context
from mig_manager.agent.exposure import wanted_labels, why_not
from mig_manager.agent.inventory import gone
from mig_manager.agent.outcome import applied
from mig_manager.agent.results import NOT_YET, SOON_S, Done, Refuse, StepResult, Wait


def release(ctx: Context) -> StepResult:
    """Labels, startup taint and our cordon are settled in one patch, so no pod can come before the labels are right.

    Then the grant of this pass's read is Released, Applied (rule A9), with the status at the end of the pass.

    Somebody else's cordon stays (rule A8). A crash before the patch leaves the cordon under the hold, one after it only
    the report.
    """
    grant, hold = ctx.grant, ctx.hold
    if grant is None or hold is None:
        return Wait("GrantChanged", SOON_S)
    degraded = ctx.draft.degraded
    wanted = wanted_labels(ctx, "degraded" if degraded else "ready" if _as_desired(ctx) else "pending")
    present = ctx.node["metadata"].get("labels") or {}
    acts.leave(ctx, labels.change(present, wanted), ready=_as_desired(ctx) and not degraded)
    ctx.draft.grant = applied(grant.id)
    if degraded:
        return Wait(why_not(ctx), SOON_S, degraded)
    if not _as_desired(ctx):
        return Wait(NOT_YET, SOON_S, "another layout is wanted by now")
    lost = gone(ctx)
    return Done() if lost is None else Refuse(lost.reason, str(lost))


def _as_desired(ctx: Context) -> bool:
    grant, desired = ctx.grant, ctx.desired
    return grant is not None and desired is not None and grant.hash == desired.hash
