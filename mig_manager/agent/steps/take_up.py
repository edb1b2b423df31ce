"""Step 7: there is a right to do what has to be done, and the API says that we use it. Rules A2 and A10."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from mig_manager.agent import acts
from mig_manager.agent.context import Context, Obstacle
from mig_manager.agent.draining import obstacle
from mig_manager.agent.exposure import missing, why_not
from mig_manager.agent.inventory import gone, take_stock
from mig_manager.agent.nudging import no_longer_stale, nudge_plugin
from mig_manager.agent.planning import TOO_MUCH, beyond, in_the_way, must_leave
from mig_manager.agent.preflight import others_elsewhere, others_here
from mig_manager.agent.results import AT_ONCE_S, CONTINUE, NOT_YET, Done, Refuse, StepResult, Wait
from mig_manager.agent.steps.observe import use_mignode
from mig_manager.api.mignode import Desired, Grant
from mig_manager.api.mignode_status import GrantState, GrantStatus
from mig_manager.api.rest import beyond_belief, rest_s
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import LEASE, MIG_NODE
from mig_manager.planner.plan import Impact, Plan
from mig_manager.wording import shortened

IDLE_RETRY_S = 30.0

FORGOTTEN = ("result", "reason", "message", "notBefore")


def take_up(ctx: Context) -> StepResult:
    """The grant for this work is Held or Repairing in the API, or the pass ends: all is well, or something is missing.

    The write carries the resourceVersion of this pass's live read of the MIGNode, and where a slot is used the Lease
    was read after it, so a grant that is revoked, replaced or a former leader's cannot be taken up. A crash before the
    write leaves nothing, one after it a hold under which the next pass goes on.

    Before that the journal says which cards the wish is about. A node that must be let go does not come here, so a
    journal that cannot be written does not keep it closed.
    """
    blocked = _not_now(ctx)
    if blocked is not None:
        return blocked
    take_stock(ctx)
    grant, work, hold = ctx.grant, ctx.work, ctx.hold
    if grant is None or work is None:
        return _idle(ctx)
    if not work.changes:
        return CONTINUE if hold is not None else _idle(ctx)
    if hold is not None and hold.id == grant.id:
        return CONTINUE
    return _not_under(ctx, grant, work) or _claim(ctx, grant)


def _not_now(ctx: Context) -> StepResult | None:
    """What keeps this node from any work, whatever is granted."""
    if ctx.spec_error is not None:
        return Refuse(ctx.spec_error.reason, str(ctx.spec_error))
    if ctx.mignode is None:
        return Wait("NoMIGNode", IDLE_RETRY_S * 20, "the node belongs to no pool")
    if ctx.driver_error is not None:
        return Refuse(ctx.driver_error.reason, str(ctx.driver_error))
    return None


def _idle(ctx: Context) -> StepResult:
    """Nothing is held and nothing is to be done under the grant: is the node as it is wanted?"""
    ctx.memory.blockers = frozenset()
    desired = ctx.desired
    if desired is None:
        return Wait("NotWanted", IDLE_RETRY_S * 20, "the node has left its pool")
    unlisted = _unlisted(ctx)
    ending = _still_to_do(ctx, desired)
    if ending is None:
        return Wait(why_not(ctx), IDLE_RETRY_S, unlisted) if unlisted else _as_wanted(ctx)
    if not unlisted or not isinstance(ending, Wait):
        return ending
    soon = min(ending.retry_after_s, IDLE_RETRY_S)
    return replace(ending, retry_after_s=soon, message=f"{ending.message}; meanwhile {unlisted}")


def _as_wanted(ctx: Context) -> StepResult:
    """All is well, but perhaps for cards that are gone."""
    lost = gone(ctx)
    return Done() if lost is None else Refuse(lost.reason, str(lost))


def _still_to_do(ctx: Context, desired: Desired) -> StepResult | None:
    """Why the cards are not as they are wanted; ``None`` when they are."""
    planned = ctx.draft.plan
    if desired.error or planned is None:
        reason, _, text = desired.error.partition(": ")
        return Refuse(reason or "UnknownProfile", text or f"profile {desired.profile} has no layout")
    if planned.reason is not None:
        return Refuse(planned.reason.reason, str(planned.reason))
    return (_in_the_way(ctx.draft.obstacle) or _not_yet(ctx, desired)) if planned.changes else None


def _unlisted(ctx: Context) -> str:
    """What of the cards as they are now the kubelet does not list, and what to do; a stale plugin is started anew.

    Also where the cards are to be changed: that may be long from now.
    """
    why = missing(ctx)
    if not why:
        no_longer_stale(ctx)
        return ""
    to_do = nudge_plugin(ctx)
    return f"{why}; {to_do}" if to_do else why


def _not_yet(ctx: Context, desired: Desired) -> StepResult:
    """Nothing is in the way: why nothing is done all the same, in words for those who look at the node first."""
    config, grant = f"MIGConfig {desired.config}", ctx.last_grant
    if desired.paused:
        return Wait("Paused", IDLE_RETRY_S * 20, f"{config} is paused; set its spec.paused to false to let it begin")
    text = f"waiting for its turn: {config} lets only so many nodes be out at a time (spec.disruption.maxUnavailable)"
    if grant is not None and grant.revoked:
        text = f"{text}; the last turn was taken back"
    return Wait(NOT_YET, IDLE_RETRY_S * 20, text)


def _not_under(ctx: Context, grant: Grant, work: Plan) -> StepResult | None:
    """Why this grant cannot be taken up now. An infeasible plan changes nothing, and does not come here."""
    excess = beyond(ctx, work, Impact(grant.max_impact))
    if excess:
        return Refuse(TOO_MUCH, excess)
    others = others_here(ctx, work)
    if others is not None:
        return others
    if ctx.kubelet_error:
        return Refuse("KubeletUnreachable", ctx.kubelet_error)
    refused = acts.untracked(ctx) or _in_the_way(obstacle(ctx, work, grant.drain))
    if refused is not None:
        return refused
    others = others_elsewhere(ctx, work)
    if others is not None:
        # Said with the plan, so that the slot goes to another node at once.
        ctx.draft.obstacle = Obstacle(others.reason, others.message)
    return others


def _in_the_way(found: Obstacle | None) -> StepResult | None:
    """What keeps the node as it is. Somebody whom no drain can move may go by himself, so he is looked for again."""
    if found is None:
        return None
    if found.reason == TOO_MUCH:
        return Refuse(found.reason, found.message)
    return Wait(found.reason, IDLE_RETRY_S, found.message)


def _claim(ctx: Context, grant: Grant) -> StepResult:
    """Write Held or Repairing."""
    status = ctx.status.grant
    fresh = status is None or status.id != grant.id
    if fresh and grant.slot:
        wrong = _not_the_leader(ctx, grant)
        return wrong or _write(ctx, grant, "Held")
    if not ctx.unavailable:
        no_slot = Wait("NodeAvailable", IDLE_RETRY_S, "the grant gives no slot")
        return no_slot if fresh else _nothing_left(ctx, grant, status)
    if not fresh and status is not None:
        wait = rest_s(status.not_before, grant.drain.timeout_s, ctx.now)
        if wait:
            return Wait(status.reason or "Waiting", min(wait, IDLE_RETRY_S), status.message)
        if ctx.work is not None and in_the_way(ctx.work, ctx.holding.holders):
            return Wait("InUse", IDLE_RETRY_S, "a repair evicts nobody; it needs a new grant")
        if ctx.work is not None and ctx.work.impact is Impact.REBOOT_NODE:
            return Wait("RebootRequired", IDLE_RETRY_S, "a repair does not reboot the node; it needs a new grant")
    return _write(ctx, grant, "Repairing")


def _nothing_left(ctx: Context, grant: Grant, status: GrantStatus | None) -> StepResult:
    """The grant was used up: only a new one helps."""
    if status is not None and status.result not in (None, "Applied"):
        if status.not_before is not None and _way_is_free(ctx):
            # The rest was for whoever was in the way. This id stays Released; the next one may come at once.
            ctx.draft.grant = replace(status, not_before=None)
            return Wait(NOT_YET, IDLE_RETRY_S, "who was in the way has gone: waiting for its turn")
        when = _when(status.not_before, grant.drain.timeout_s, ctx.now)
        return Wait(status.reason or "Waiting", IDLE_RETRY_S * 20, f"{status.message}{when}")
    return Wait(NOT_YET, IDLE_RETRY_S * 20, "the cards changed after the grant was carried out")


def _way_is_free(ctx: Context) -> bool:
    """Whether pods were in the way when the last attempt was given up, and nobody at all is by now.

    Then the next attempt evicts nobody and takes seconds. One that failed for another reason rests on.
    """
    if not ctx.memory.blockers or ctx.work is None:
        return False
    pods = {pod.full_name for pod in ctx.pods}
    way = must_leave(ctx.work, ctx.holding.holders, ctx.pods)
    # Others may have come meanwhile: then it is they for whom it rests.
    ctx.memory.blockers = frozenset(h.name for h in way if h.name in pods) or ctx.memory.blockers
    return not way


def _when(again: datetime | None, timeout_s: float, now: datetime) -> str:
    """When the next attempt is due, for people."""
    if again is None:
        return ""
    if beyond_belief(again, timeout_s, now):
        said = f"notBefore ({again:%Y-%m-%d %H:%M} UTC) is farther ahead than any attempt rests and counts as not set"
        return f"; {said}: look at this node's clock"
    return f"; tried again after {again:%H:%M:%S} UTC, or when layout or drain change"


def _not_the_leader(ctx: Context, grant: Grant) -> StepResult | None:
    settings = ctx.settings
    try:
        lease = ctx.ports.cluster.get(LEASE, settings.lease, settings.lease_namespace)
    except NotFoundError:
        return Wait("NoLeader", IDLE_RETRY_S, f"there is no Lease {settings.lease_namespace}/{settings.lease}")
    if lease.get("spec", {}).get("holderIdentity") != grant.by:
        return Wait("FormerLeader", IDLE_RETRY_S, f"{grant.by} gave the grant and leads no more")
    return None


def _write(ctx: Context, grant: Grant, state: GrantState) -> StepResult:
    """Write the state with the resourceVersion of the read that everything was decided on.

    A grant that was Released before keeps its result: by that the drain knows that it may evict nobody.
    """
    former, mignode = ctx.status.grant, ctx.mignode
    if mignode is None:
        return _idle(ctx)
    again = former is not None and former.id == grant.id
    claim = GrantStatus(
        id=grant.id,
        state=state,
        since=ctx.now,
        attempts=former.attempts if former else 0,
    )
    written: dict[str, Any] = {} if again else dict.fromkeys(FORGOTTEN)
    written |= {"attempts": None, **claim.to_dict()}
    body = {
        "metadata": {"resourceVersion": mignode.resource_version},
        "status": {"grant": written, "observedGeneration": mignode.generation, "step": "take_up"},
    }
    try:
        answer = ctx.ports.cluster.patch(MIG_NODE, mignode.name, body, subresource="status")
    except ConflictError as error:
        return Wait("Conflict", AT_ONCE_S, shortened(str(error)))
    ctx.memory.blockers = frozenset()
    return use_mignode(ctx, answer)
