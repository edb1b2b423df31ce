"""Step 13: the cards are as granted, or as they were. Rule A6, second half."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.clients import must_go
from mig_manager.agent.context import Context
from mig_manager.agent.identity import cordon_of
from mig_manager.agent.live import pods_on, read_cards
from mig_manager.agent.means import means_for
from mig_manager.agent.planning import plan_all
from mig_manager.agent.results import CONTINUE, SOON_S, StepResult, Wait
from mig_manager.agent.steps.finish_begun import note_changes, rebooting, verdict_of
from mig_manager.agent.steps.stand_down import stand_down_with
from mig_manager.gpu.apply import apply as apply_plan
from mig_manager.gpu.reset import RebootingError
from mig_manager.kube.kinds import NODE


def apply(ctx: Context) -> StepResult:
    """The layout is on the cards, read back, and the record closed together with the new last good layout.

    ``mig_manager.gpu.apply`` does it: record, last look, modes with their resets, compute before GPU instances,
    explicit placements. On failure the cards are as they were, or nothing is promised any more; either way the hold
    ends in the same pass.

    The last look is in the same breath as the first destroy: still this Node, still unschedulable, clients gone; and
    right before each destroy nobody holds what goes. A crash at any instruction leaves the record, and the next pass
    begins with it (``finish_begun``). So does a reboot, where the change takes one: the pass ends with the record open.
    """
    if ctx.order is None or not ctx.order.changes:
        return CONTINUE
    hold = ctx.hold
    try:
        result = apply_plan(
            ctx.ports.gpus,
            ctx.order,
            ctx.ports.journal,
            means_for(ctx),
            intent_id=str(hold.id if hold else 0),
            last_look=lambda: last_look(ctx),
        )
    except RebootingError:
        return rebooting(ctx)
    ctx.record = ctx.ports.journal.read()
    note_changes(ctx, result)
    read_cards(ctx)
    plan_all(ctx)
    verdict = verdict_of(result)
    if verdict is not None:
        return stand_down_with(ctx, verdict)
    return CONTINUE if result.ok else Wait(result.reason, SOON_S, result.message)


def last_look(ctx: Context) -> str:
    """Why the first destroy must not happen after all, as one CamelCase word; empty when it may.

    The pods read here are those with which holders are looked at from now on.
    """
    node = ctx.ports.cluster.get(NODE, ctx.settings.node)
    if node["metadata"]["uid"] != ctx.node["metadata"]["uid"]:
        return "NodeRecreated"
    ctx.node = node
    if not cordon_of(node, ctx.ports.cluster.manager).unschedulable:
        return "Uncordoned"
    ctx.pods = pods_on(ctx.ports, ctx.settings.node)
    paused = ctx.pause
    if paused is None:
        return "ClientsResumed"
    return "ClientsBack" if must_go(acts.due_clients(ctx), paused, ctx.pods) else ""
