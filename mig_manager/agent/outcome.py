"""How a hold ends: when, with which verdict, and when another attempt is due."""

from __future__ import annotations

from datetime import datetime, timedelta

from mig_manager.agent.context import Context, Verdict
from mig_manager.agent.draining import last_end, obstacle
from mig_manager.agent.planning import TOO_MUCH, beyond, must_leave
from mig_manager.agent.preflight import others_here
from mig_manager.api.mignode import Grant
from mig_manager.api.mignode_status import GrantStatus
from mig_manager.api.rest import LONGEST_REST_S
from mig_manager.gpu.port import DriverNotReadyError, GpuError, GpuLostError, GpuNeedsResetError
from mig_manager.planner.plan import Impact, Plan
from mig_manager.wording import shortened

FIRST_RETRY_S = 30.0
LONGEST_RETRY_S = 1800.0
"""After attempts that left the node without its slices: nobody is there to be hurt by the next."""

CLIENTS_S = 300.0
"""What is left to GPU clients to go, once the pods have gone. They are few, and used to it."""

DRIVER_S = 30.0
"""For how long a driver that is there may fail to say what is on the cards before the node is let go."""

_DRIVER = "driver"


def end_of(ctx: Context) -> Verdict | None:
    """Why the work under the hold must end here; ``None`` while it may go on, or when nothing is held. Rule A7."""
    if ctx.driver_error is None:
        ctx.memory.forget(_DRIVER)
    if ctx.record.intent is not None or not (ctx.hold or ctx.ours):
        return None
    if ctx.verdict is not None:
        return ctx.verdict
    if ctx.hold is None:
        return Verdict("Aborted", "NotHeld", "something of ours was left on a node that is not held", retry=False)
    if ctx.grant is None:
        return _revoked(ctx)
    if ctx.driver_error is not None:
        return _without_driver(ctx, ctx.driver_error)
    return _cannot_go_on(ctx)


def released(hold: GrantStatus, verdict: Verdict, now: datetime) -> GrantStatus:
    """The hold's last word. Every attempt that came to nothing doubles the distance to the next, up to six hours.

    A node that can be neither emptied nor cut must neither be closed most of the time nor become a machine that evicts
    whoever comes back. After a drain that took its whole time for nothing the distance begins with that time; where no
    slices are left it ends at half an hour.
    """
    attempts = hold.attempts + 1 if verdict.retry else hold.attempts
    first = max(FIRST_RETRY_S, verdict.rest_s)
    longest = max(LONGEST_RETRY_S if verdict.result == "Failed" else LONGEST_REST_S, verdict.rest_s)
    wait = min(longest, first * 2 ** min(attempts - 1, 10)) if verdict.retry else 0.0
    return GrantStatus(
        id=hold.id,
        state="Released",
        result=verdict.result,
        reason=verdict.reason,
        message=shortened(verdict.message),
        not_before=now + timedelta(seconds=wait) if wait else None,
        attempts=0 if verdict.result == "Applied" else attempts,
    )


def applied(grant_id: int) -> GrantStatus:
    """The last word of work that is done."""
    return GrantStatus(id=grant_id, state="Released", result="Applied")


def _revoked(ctx: Context) -> Verdict:
    done = ctx.work is not None and ctx.work.feasible and not ctx.work.changes
    if done and ctx.hold is not None and ctx.last_grant is not None and ctx.hold.id == ctx.last_grant.id:
        return Verdict("Applied", "", "", retry=False)
    return Verdict("Aborted", "GrantRevoked", "the grant was revoked before anything was changed", retry=False)


def _without_driver(ctx: Context, error: GpuError) -> Verdict | None:
    """The cards cannot be read: nothing can go on, and a call that fails once costs nobody his eviction.

    Without a verdict the pass ends in ``take_up``, before anything is done. A driver that is not there, or a card that
    does nothing any more, is no matter of seconds. That somebody uncordoned the node is known to this pass alone.
    """
    lasting = isinstance(error, DriverNotReadyError | GpuLostError | GpuNeedsResetError)
    if not lasting and not ctx.uncordoned and ctx.memory.waited_s(_DRIVER, ctx.node_now) <= DRIVER_S:
        return None
    return Verdict("Aborted", error.reason, str(error))


def _cannot_go_on(ctx: Context) -> Verdict | None:  # noqa: PLR0911 - a list of reasons
    """What speaks against going on under a grant that stands."""
    grant, hold, work = ctx.grant, ctx.hold, ctx.work
    if grant is None or hold is None or work is None:
        return None
    if work.reason is not None:
        return Verdict("Aborted", work.reason.reason, str(work.reason))
    if not work.changes:
        return None
    if hold.state == "Repairing" and not ctx.unavailable:
        return Verdict("Aborted", "NodeCameBack", "the node is available again, and no slot is held for it")
    if hold.id == grant.id:
        return _not_as_granted(ctx, grant, work) or _timed_out(ctx, grant, hold, work)
    # Another grant is to be taken up: whatever is left of the former one is judged under that.
    if hold.state == "Held" and not grant.slot:
        return Verdict("Aborted", "GrantReplaced", f"grant {grant.id} gives no slot", retry=False)
    found = obstacle(ctx, work, grant.drain)
    if found is not None:
        return Verdict("Aborted", found.reason, found.message)
    # Where that cannot be done yet, the node must not stay cordoned for ever.
    return _timed_out(ctx, grant, hold, work)


def _not_as_granted(ctx: Context, grant: Grant, work: Plan) -> Verdict | None:
    """What the grant itself does not allow, or somebody who stepped in."""
    if ctx.uncordoned:
        return Verdict("Aborted", "Uncordoned", "somebody uncordoned the node while it was being drained")
    others = others_here(ctx, work)
    if others is not None:
        return Verdict("Aborted", others.reason, others.message)
    excess = beyond(ctx, work, Impact(grant.max_impact))
    return Verdict("Aborted", TOO_MUCH, excess) if excess else None


def overdue(ctx: Context, grant: Grant) -> bool:
    """Whether the node has been held for longer than a drain may last."""
    return ctx.hold is not None and _held_s(ctx, ctx.hold) > grant.drain.timeout_s


def _held_s(ctx: Context, hold: GrantStatus) -> float:
    """For how many seconds the node has been held.

    A hold that begins in the future is as old as it is far ahead: this node's clock was wrong when it was written, and
    who believed it would keep the node closed until then.
    """
    return abs((ctx.now - hold.since).total_seconds()) if hold.since is not None else 0.0


def _timed_out(ctx: Context, grant: Grant, hold: GrantStatus, work: Plan) -> Verdict | None:
    """Whether the node has been taken out for longer than a drain may last, and is not to wait on.

    Not while everybody who is left is ending within a grace period: it would have been for nothing that they were
    evicted, and whoever comes in their place would be evicted next.

    Once everybody has left, GPU clients have a time of their own: what was gained is not given up at once, and clients
    that do not go keep no node closed for ever, whatever is to happen to a drain that takes too long. All that is for
    work that goes on, and not for a grant that cannot be taken up.
    """
    if not overdue(ctx, grant):
        return None
    terms, held_s = grant.drain, _held_s(ctx, hold)
    way = must_leave(work, ctx.holding.holders, ctx.pods)
    if hold.id != grant.id:
        given_up = True
    elif way:
        given_up = terms.on_timeout == "Abort" and last_end(ctx, way) is None
    else:
        given_up = ctx.memory.waited_s(f"clients {hold.since}", ctx.node_now) > CLIENTS_S
    if not given_up:
        return None
    said = ctx.ready_message or "what is in the way did not go in time"
    return Verdict("Aborted", "DrainTimeout", f"given up after {held_s:.0f} s: {said}", rest_s=terms.timeout_s)
