"""Step 3: what the desired layout would take is known, before anything is done for it."""

from __future__ import annotations

from mig_manager.agent.context import Context, Obstacle
from mig_manager.agent.draining import obstacle
from mig_manager.agent.planning import plan_all
from mig_manager.agent.preflight import others_here
from mig_manager.agent.results import CONTINUE, StepResult
from mig_manager.planner.plan import Plan


def plan(ctx: Context) -> StepResult:
    """The difference from the cards to the desired layout, and to the grant's, is planned; status will say it.

    It ends no pass: what stands under a grant goes on, and is taken back, whatever somebody wishes next. Whether an
    infeasible wish is refused is said in ``take_up``. So is who stands in its way and cannot be made to leave, and who
    else is in charge of the node: no slot is given to a node where nothing can be done. Under a hold the drain sees to
    the former, and ``stand_down`` to the latter.

    Nothing is changed, so a crash leaves nothing.
    """
    plan_all(ctx)
    if ctx.hold is None and ctx.draft.plan is not None and ctx.desired is not None:
        ctx.draft.obstacle = _in_charge(ctx, ctx.draft.plan) or obstacle(ctx, ctx.draft.plan, ctx.desired.drain)
    return CONTINUE


def _in_charge(ctx: Context, planned: Plan) -> Obstacle | None:
    """Somebody else who is in charge of the node or its cards, where the wish would change them."""
    others = others_here(ctx, planned) if planned.changes else None
    return Obstacle(others.reason, others.message) if others is not None else None
