"""Step 5: a grant for which nothing is left to do is acknowledged, and the present layout is the last good one."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.exposure import missing
from mig_manager.agent.inventory import missing_cards
from mig_manager.agent.ours import startup_tainted
from mig_manager.agent.outcome import applied
from mig_manager.agent.results import CONTINUE, StepResult


def settle(ctx: Context) -> StepResult:
    """A grant whose layout is on the cards, with nothing of ours on the node, is Released, Applied. Rule A3.

    That is written with the status at the end of the pass, naming the id that was read. The host file promises exactly
    this layout, with what was promised on cards that are gone, and a node that also advertises it has lost its startup
    taint.

    While something of ours is left the last steps do this instead. A crash leaves the acknowledgement to the next pass.
    """
    grant, work = ctx.grant, ctx.work
    if ctx.hold or ctx.ours or grant is None or work is None or not work.feasible or work.changes:
        return CONTINUE
    status = ctx.status.grant
    if status is None or status.id != grant.id or status.result != "Applied":
        ctx.draft.grant = applied(grant.id)
    good = {p.card.uuid: p.target for p in work.cards if p.target is not None}
    # What was promised on a card that is gone stays promised, until somebody decides.
    good |= {uuid: ctx.record.last_good[uuid] for uuid in missing_cards(ctx) if uuid in ctx.record.last_good}
    if ctx.record.last_good != good:
        ctx.ports.journal.close(good)
        ctx.record = ctx.ports.journal.read()
    if startup_tainted(ctx.node) and ctx.draft.plan is not None and not ctx.draft.plan.changes and not missing(ctx):
        acts.leave(ctx, {}, ready=True)
    return CONTINUE
