"""Step 3: what the desired layout would take is known, before anything is done for it."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.inventory import take_stock
from mig_manager.agent.planning import plan_all
from mig_manager.agent.results import CONTINUE, StepResult


def plan(ctx: Context) -> StepResult:
    """The difference from the cards to the desired layout, and to the grant's, is planned; status will say it.

    It ends no pass: what stands under a grant goes on, and is taken back, whatever somebody wishes next. Whether an
    infeasible wish is refused is said in ``take_up``.

    The journal says which cards the wish is about. Nothing else is changed, so a crash leaves that, or nothing.
    """
    plan_all(ctx)
    take_stock(ctx)
    return CONTINUE
