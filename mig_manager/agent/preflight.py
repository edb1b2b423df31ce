"""Whether somebody else is in charge of this node or of its cards, asked before anything is destroyed."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.foreign import dra_driver, foreign_manager, mps
from mig_manager.agent.maintenance import maintenance, maintenance_lease
from mig_manager.agent.results import Refuse, Wait
from mig_manager.planner.plan import Plan

MAINTENANCE_RETRY_S = 30.0


def others_here(ctx: Context, work: Plan) -> Refuse | Wait | None:
    """Who is in charge, by what this pass has read; looked at until the first destroy."""
    manager = foreign_manager(ctx.node, ctx.pods)
    if manager:
        return Refuse("ForeignManager", manager)
    shared = mps(ctx.node, ctx.pods)
    if shared and any(card.target is not None and card.target.mig for card in work.cards):
        return Refuse("MPSConfigured", shared)
    return _maintained(maintenance(ctx.node))


def others_elsewhere(ctx: Context) -> Refuse | Wait | None:
    """Who is in charge, by objects that are read for this only; the last thing that is asked before a grant is used.

    Who is found is remembered: no slot is given for as long as he is there.
    """
    found = _elsewhere(ctx)
    ctx.memory.elsewhere = found is not None
    return found


def _elsewhere(ctx: Context) -> Refuse | Wait | None:
    driver = dra_driver(ctx.ports.cluster, ctx.settings.node)
    if driver:
        return Refuse("ForeignManager", driver)
    namespace = ctx.settings.maintenance_leases
    if not namespace:
        return None
    return _maintained(maintenance_lease(ctx.ports.cluster, namespace, ctx.settings.node, ctx.now))


def _maintained(what: str) -> Wait | None:
    return Wait("OtherMaintenance", MAINTENANCE_RETRY_S, what) if what else None
