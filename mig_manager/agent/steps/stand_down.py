"""Step 6: where the work under a hold must not go on, nothing of ours is left. Rule A7."""

from __future__ import annotations

from mig_manager.agent import acts, labels
from mig_manager.agent.context import Context, Verdict
from mig_manager.agent.exposure import wanted_labels
from mig_manager.agent.outcome import end_of, released
from mig_manager.agent.planning import must_leave
from mig_manager.agent.preflight import CLIENT_FORBIDDEN, forbidden_message
from mig_manager.agent.results import CONTINUE, SOON_S, StepResult, Wait
from mig_manager.kube.errors import ForbiddenError


def stand_down(ctx: Context) -> StepResult:
    """Clients are resumed, the node is uncordoned if it was us, and last of all the hold is Released (rule A9).

    That is so when the grant was revoked, timed out or is of no use any more, or (Repairing) when the node came back.

    A crash before the patch leaves everything to the next pass, one after it only the report: the next pass finds a
    hold with nothing of ours, and either goes on under it or releases it.
    """
    verdict = end_of(ctx)
    if verdict is None:
        return CONTINUE
    return stand_down_with(ctx, verdict)


def stand_down_with(ctx: Context, verdict: Verdict) -> StepResult:
    """Leave the node alone and report how it ended."""
    if verdict.result != "Aborted" or ctx.draft.changes:
        acts.restart_clients(ctx)
    ctx.memory.blockers = _blockers(ctx, verdict)
    hold = ctx.hold
    state = "pending" if verdict.result in ("Applied", "Aborted") else "failed"
    present = ctx.node["metadata"].get("labels") or {}
    acts.leave(ctx, labels.change(present, wanted_labels(ctx, state)), ready=False)
    if hold is not None:
        ctx.draft.grant = released(hold, verdict, ctx.now)
    return Wait(verdict.reason or "Released", SOON_S, verdict.message)


def _blockers(ctx: Context, verdict: Verdict) -> frozenset[str]:
    """The pods that are in the way of work that is given up and due again: when they have gone it need not rest.

    Whoever uncordoned the node wants it open, and not only until those pods have gone.
    """
    if verdict.result != "Aborted" or not verdict.retry or ctx.uncordoned or ctx.work is None:
        return frozenset()
    pods = {pod.full_name for pod in ctx.pods}
    return frozenset(h.name for h in must_leave(ctx.work, ctx.holding.holders, ctx.pods) if h.name in pods)


def client_forbidden(ctx: Context, error: ForbiddenError) -> StepResult:
    """Give up: a right that the agent has not got does not come while the node is closed and its clients are away.

    Pods may have been evicted for it, so it rests like a drain that came to nothing.
    """
    rest_s = ctx.grant.drain.timeout_s if ctx.grant is not None else 0.0
    return stand_down_with(ctx, Verdict("Aborted", CLIENT_FORBIDDEN, forbidden_message(error), rest_s=rest_s))
