"""Step 3: what the desired layout would take is known, before anything is done for it."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.draining import obstacle
from mig_manager.agent.inventory import take_stock
from mig_manager.agent.planning import plan_all
from mig_manager.agent.results import CONTINUE, StepResult


def plan(ctx: Context) -> StepResult:
    """The difference from the cards to the desired layout, and to the grant's, is planned; status will say it.

    It ends no pass: what stands under a grant goes on, and is taken back, whatever somebody wishes next. Whether an
    infeasible wish is refused is said in ``take_up``. So is who stands in its way and cannot be made to leave: no slot
    is given to a node where nothing can be done. Under a hold the drain sees to them.

    The journal says which cards the wish is about. Nothing else is changed, so a crash leaves that, or nothing.
    """
    plan_all(ctx)
    take_stock(ctx)
    if ctx.hold is None and ctx.draft.plan is not None and ctx.desired is not None:
        ctx.draft.obstacle = obstacle(ctx, ctx.draft.plan, ctx.desired.drain)
    return CONTINUE
