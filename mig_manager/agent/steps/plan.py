"""Step 3: what the desired layout would take is known, before anything is done for it."""

from __future__ import annotations

from mig_manager.agent.acts import untracked
from mig_manager.agent.context import Context, Obstacle
from mig_manager.agent.draining import obstacle
from mig_manager.agent.planning import TOO_MUCH, beyond, plan_all
from mig_manager.agent.preflight import others_elsewhere, others_here
from mig_manager.agent.results import CONTINUE, StepResult
from mig_manager.api.mignode import Desired
from mig_manager.planner.plan import Impact, Plan


def plan(ctx: Context) -> StepResult:
    """The difference from the cards to the desired layout, and to the grant's, is planned; status will say it.

    It ends no pass: what stands under a grant goes on, and is taken back, whatever somebody wishes next. Whether an
    infeasible wish is refused is said in ``take_up``. So is that it takes more than ``maxImpact``, who stands in its
    way and cannot be made to leave, and who else is in charge of the node: no slot is given to a node where nothing can
    be done. Under a hold the drain sees to those in the way, and ``stand_down`` to the rest.

    Nothing is changed, so a crash leaves nothing.
    """
    plan_all(ctx)
    if ctx.hold is None and ctx.draft.plan is not None and ctx.desired is not None:
        ctx.draft.obstacle = _obstacle(ctx, ctx.draft.plan, ctx.desired)
    return CONTINUE


def _obstacle(ctx: Context, planned: Plan, desired: Desired) -> Obstacle | None:
    """What is in the way of the wish, whoever's turn it is."""
    limit = desired.max_impact
    excess = beyond(ctx, planned, Impact(limit)) if limit is not None and planned.feasible else ""
    if excess:
        return Obstacle(TOO_MUCH, excess)
    return _in_charge(ctx, planned) or obstacle(ctx, planned, desired.drain)


def _in_charge(ctx: Context, planned: Plan) -> Obstacle | None:
    """Somebody else who is in charge of the node or its cards, or a client that cannot be paused, where it matters.

    Who is in charge elsewhere is asked where the last answer was that somebody is; else in ``take_up`` only.
    """
    if not planned.changes:
        return None
    others = others_here(ctx, planned) or untracked(ctx)
    if others is None and ctx.memory.elsewhere:
        others = others_elsewhere(ctx, planned)
    return Obstacle(others.reason, others.message) if others is not None else None
