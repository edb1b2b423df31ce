"""Whether those who have to leave for a plan can be made to."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from mig_manager.agent.context import Context, Obstacle
from mig_manager.agent.identity import cordoned_since
from mig_manager.agent.planning import must_leave
from mig_manager.api.migconfig import Drain
from mig_manager.geometry.state import Holder, said
from mig_manager.kube.drain.classify import Policy
from mig_manager.kube.drain.naming import named, told
from mig_manager.kube.drain.once import judge
from mig_manager.planner.plan import Plan

ENDING = timedelta(seconds=30)
"""What a pod is given beyond its grace period: then its containers are killed, and the kubelet says so."""


def policy_for(ctx: Context, terms: Drain) -> Policy:
    """Who may be made to leave on these terms.

    Before there is a hold the node is not closed for us. Under one it is since our cordon; behind somebody else's it is
    known to be since the hold. Whom the present wish protects is safe before there is a grant that says so.
    """
    since = cordoned_since(ctx.node) if ctx.cordon.ours else None
    spared = ctx.desired.drain.protected if ctx.desired else None
    return Policy(terms, cordoned_at=since or ctx.hold.since if ctx.hold else None, spared=spared)


def obstacle(ctx: Context, plan: Plan, terms: Drain) -> Obstacle | None:
    """Somebody in the way whom no drain can move; then the node need not even be cordoned. ClusterError.

    A pod of which nobody knows yet which slice it gets is no obstacle: it may be in nobody's way.
    """
    if not plan.changes or ctx.kubelet_error:
        return None
    way = [holder for holder in must_leave(plan, ctx.holding.holders, ctx.pods) if not holder.leaving]
    pods = {pod.full_name: pod for pod in ctx.pods}
    strangers = [holder for holder in way if holder.name not in pods]
    if strangers:
        return Obstacle("InUse", f"in use by {said(strangers)}")
    bodies = [pods[h.name].body for h in way if h.name not in ctx.holding.unplaced]
    refused = judge(ctx.ports.cluster, bodies, policy_for(ctx, terms)).refused
    return Obstacle(refused[0].verdict.reason, told(refused)) if refused else None


def last_end(ctx: Context, way: Collection[Holder]) -> datetime | None:
    """Until when those in the way may take to leave, if all of them are leaving and that is still to come.

    It is their own wish: a pod's ``deletionTimestamp`` is when its grace period ends, by the API server's clock.
    """
    ends = {pod.full_name: pod.body["metadata"].get("deletionTimestamp") for pod in ctx.pods}
    if not all(holder.leaving for holder in way):
        return None
    known = [datetime.fromisoformat(end) for holder in way if (end := ends.get(holder.name))]
    return max((end for end in known if ctx.now < end + ENDING), default=None)


def in_words(ctx: Context, holders: Collection[Holder]) -> str:
    """How messages name those who have to leave, pods by their workloads."""
    pods = {pod.full_name: pod.body for pod in ctx.pods}
    return named(pods.get(holder.name, holder.name) for holder in holders)
