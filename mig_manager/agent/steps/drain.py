"""Step 9: no pod holds a slice that is to be destroyed."""

from __future__ import annotations

from functools import partial

from mig_manager.agent.context import Context, Verdict
from mig_manager.agent.draining import in_words, last_end, policy_for
from mig_manager.agent.events import announce_evictions
from mig_manager.agent.outcome import overdue
from mig_manager.agent.planning import must_leave
from mig_manager.agent.results import CONTINUE, SOON_S, StepResult, Wait
from mig_manager.agent.steps.stand_down import stand_down_with
from mig_manager.api.mignode import Grant
from mig_manager.geometry.state import Holder, said
from mig_manager.kube.drain.once import drain_once

IN_USE_RETRY_S = 2.0


def drain(ctx: Context) -> StepResult:
    """Whoever holds what the plan destroys is gone: pods are evicted, all dry-run first, and only those.

    Nobody is evicted while one of them is blocked or waited for, while somebody who is no pod stands in the way, or
    while a pod is bound of which nobody knows yet which slice it gets. A pod that must not be evicted and came after
    the grant was taken up ends the work: the node is let go at once.

    A crash in the middle leaves some pods evicted; the next pass goes on with the rest.
    """
    grant, work = ctx.grant, ctx.work
    if grant is None or work is None or not work.changes:
        return CONTINUE
    if ctx.kubelet_error:
        return Wait("KubeletUnreachable", IN_USE_RETRY_S, ctx.kubelet_error)
    way = must_leave(work, ctx.holding.holders, ctx.pods)
    result = (_cannot_be_evicted(ctx, way) or _evict(ctx, grant, way)) if way else CONTINUE
    if isinstance(result, Wait) and ctx.hold is not None and overdue(ctx, grant):
        end = last_end(ctx, way)
        until = f"; their grace periods end at {end:%H:%M:%S} UTC" if end is not None else ""
        text = f"for more than {grant.drain.timeout_s} s now: {result.message}{until}"
        return Wait("DrainOverdue", result.retry_after_s, text)
    return result


def _evict(ctx: Context, grant: Grant, way: tuple[Holder, ...]) -> StepResult:
    staying = [holder for holder in way if not holder.leaving]
    if staying and _was_released(ctx):
        verdict = Verdict("Aborted", "InUse", f"a repair evicts nobody, and {staying[0].name} is there by now")
        return stand_down_with(ctx, verdict)
    pods = {pod.full_name: pod.body for pod in ctx.pods}
    bodies = [pods[holder.name] for holder in way if holder.name in pods]
    policy = policy_for(ctx, grant.drain)
    progress = drain_once(ctx.ports.cluster, bodies, policy, partial(announce_evictions, ctx))
    if progress.hopeless:
        return stand_down_with(ctx, Verdict("Aborted", progress.reason, progress.blocked))
    if progress.reason:
        return Wait(progress.reason, progress.retry_after_s, progress.blocked)
    return Wait("Draining", SOON_S, f"waiting for {in_words(ctx, way)} to leave")


def _cannot_be_evicted(ctx: Context, way: tuple[Holder, ...]) -> StepResult | None:
    pods = {pod.full_name for pod in ctx.pods}
    strangers = [h for h in way if h.name not in pods and not h.leaving]
    if strangers:
        return Wait("InUse", IN_USE_RETRY_S, f"in use by {said(strangers)}")
    unplaced = [h for h in way if h.name in ctx.holding.unplaced and not h.leaving]
    if unplaced:
        text = f"nobody knows yet which slice {in_words(ctx, unplaced)} will use"
        return Wait("PodNotAdmitted", SOON_S, text)
    return None


def _was_released(ctx: Context) -> bool:
    """Whether the grant was carried out before and this is a repair under it: whatever evicts needs a new id."""
    status = ctx.status.grant
    return status is not None and status.state == "Repairing" and status.result is not None
