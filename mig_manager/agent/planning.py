"""Plans of a pass: from the cards as they are to a layout, and what of it is in somebody's use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mig_manager.agent.context import Context
from mig_manager.agent.inventory import objection
from mig_manager.agent.modes import as_known, no_reboot, why_reboot
from mig_manager.agent.pods import Pod
from mig_manager.api.migconfig import Strategy as WantedStrategy
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.state import Holder, Holders, SliceKey
from mig_manager.kube.drain.classify import Policy, Skip, classify
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import CardPlan, Impact, Plan

TOO_MUCH = "ImpactNotAllowed"
"""The reason for leaving a node as it is because the plan does more than ``maxImpact`` allows."""


def plan_for(ctx: Context, layout: Layout, strategy: WantedStrategy) -> Plan:
    """The cheapest way from the cards as they are, with those who use them, to the layout.

    Where that takes a reboot that cannot be, or the cards are not those that the wish was about, the plan says so
    instead.
    """
    plan = plan_node(as_known(ctx, ctx.cards), ctx.holding.holders, layout, ctx.strategy_of(strategy))
    reason = objection(ctx, plan) or no_reboot(ctx, plan)
    return plan if reason is None else plan.refused(reason)


def plan_all(ctx: Context) -> None:
    """Plan the desired layout, and the grant's, revoked or not: whether its work is done is asked of both."""
    if ctx.driver_error is not None:
        return
    desired, grant = ctx.desired, ctx.last_grant
    layout = desired.layout if desired is not None else None
    ctx.draft.plan = plan_for(ctx, layout, desired.strategy) if desired is not None and layout is not None else None
    ctx.work = plan_for(ctx, grant.layout, grant.strategy) if grant is not None else None


def beyond(ctx: Context, plan: Plan, limit: Impact) -> str:
    """Why the plan does more than ``maxImpact`` allows; empty when it does not."""
    if impact_of(plan).allowed_by(limit):
        return ""
    why = why_reboot(ctx, plan)
    return f"it takes {impact_of(plan)}{f' ({why})' if why else ''}, and maxImpact is {limit}"


def impact_of(plan: Plan) -> Impact:
    """What the plan does to others; changes that are no slices (a mode that is pending) do at least something."""
    silent = plan.changes and not any(counts(plan))
    return Impact.FREE_SLICES if silent and plan.impact is Impact.NONE else plan.impact


def counts(plan: Plan) -> tuple[int, int]:
    """How many slices are created and destroyed; a compute instance changed inside a kept slice counts as one."""
    create = destroy = 0
    for card in plan.cards:
        change = card.difference
        create += len(change.create) + sum(len(k.create_compute) for k in change.keep)
        destroy += len(change.destroy) + sum(len(k.destroy_compute) for k in change.keep)
    return create, destroy


def changes_mode(plan: Plan | None) -> bool:
    """Whether MIG is turned on or off on some card; also where nobody knows yet."""
    if plan is None:
        return True
    return any(p.difference.set_mode is not None or not p.difference.becomes_current for p in plan.cards)


def in_the_way(plan: Plan, holders: Holders) -> tuple[Holder, ...]:
    """Everybody who uses what the plan destroys, those included who are leaving."""
    found: set[Holder] = set()
    if plan.impact is Impact.REBOOT_NODE:
        return tuple(sorted(found.union(*holders.values())))
    for card in plan.cards:
        gone = set(_going(card))
        wiped = card.target is not None and (card.reset or not card.difference.becomes_current)
        for key, who in holders.items():
            if key.gpu_uuid == card.card.uuid and (wiped or key in gone):
                found |= who
    return tuple(sorted(found))


def must_leave(plan: Plan, holders: Holders, pods: Iterable[Pod]) -> tuple[Holder, ...]:
    """Everybody who has to leave before the plan is carried out.

    Those are the users of what it destroys or resets. Before a reboot it is everybody who uses a card, and every other
    pod on the node but those that go down and come up with it.
    """
    found = set(in_the_way(plan, holders))
    if plan.impact is Impact.REBOOT_NODE:
        found |= {Holder(pod.full_name, leaving=pod.leaving) for pod in pods if not goes_with_the_node(pod)}
    return tuple(sorted(found))


def goes_with_the_node(pod: Pod) -> bool:
    """Whether a pod need not leave before a reboot: it has ended, or is a DaemonSet's or static."""
    return isinstance(classify(pod.body, Policy(whole_node=True)), Skip)


def _going(plan: CardPlan) -> Iterator[SliceKey]:
    for instance in plan.difference.destroy:
        yield SliceKey(plan.card.uuid, instance.id)
        for compute in instance.compute:
            yield SliceKey(plan.card.uuid, instance.id, compute.id)
    for kept in plan.difference.keep:
        for compute in kept.destroy_compute:
            yield SliceKey(plan.card.uuid, kept.instance.id, compute.id)
            # Whoever uses the GPU instance without saying which part may use this one.
            yield SliceKey(plan.card.uuid, kept.instance.id)
