"""Step 12: what is about to begin is what the grant says at this very moment. Rule A6, first half."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.planning import impact_of, in_the_way, plan_for
from mig_manager.agent.results import AT_ONCE_S, CONTINUE, StepResult, Wait
from mig_manager.agent.steps.observe import use_mignode
from mig_manager.agent.steps.stand_down import client_forbidden
from mig_manager.kube.errors import ForbiddenError, NotFoundError
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.planner.plan import Impact


def begin(ctx: Context) -> StepResult:  # noqa: PLR0911 - a list of reasons
    """The MIGNode was read live once more: the same object, the same id, not revoked.

    The plan of *that* read's layout is feasible, allowed, and in nobody's way. Clients that cannot be kept away have
    just been deleted; where the agent may not do that, the work ends here.

    A crash leaves cordon and pause under the hold.
    """
    if ctx.work is None or not ctx.work.changes:
        return CONTINUE
    before, hold = ctx.mignode, ctx.hold
    try:
        understood = use_mignode(ctx, ctx.ports.cluster.get(MIG_NODE, ctx.settings.node))
    except NotFoundError:
        return Wait("GrantChanged", AT_ONCE_S, "the MIGNode is gone")
    if understood is not CONTINUE:
        return understood
    grant, now = ctx.grant, ctx.mignode
    same = before is not None and now is not None and now.uid == before.uid
    if not same or grant is None or hold is None or grant.id != hold.id:
        return Wait("GrantChanged", AT_ONCE_S, "the grant was revoked or replaced")
    order = plan_for(ctx, grant.layout, grant.strategy)
    if order.reason is not None or not impact_of(order).allowed_by(Impact(grant.max_impact)):
        return Wait("PlanChanged", AT_ONCE_S, "the plan is not what it was")
    if in_the_way(order, ctx.holding.holders):
        return Wait("InUse", AT_ONCE_S, "somebody uses what was free")
    try:
        acts.restart_clients(ctx)
    except ForbiddenError as error:
        return client_forbidden(ctx, error)
    ctx.order = order
    return CONTINUE
