"""The status of the MIGNode: what this pass has found, in one patch at its end, and only if that is news."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mig_manager.agent.context import Context
from mig_manager.agent.devices import counts as device_counts
from mig_manager.agent.devices import devices_of
from mig_manager.agent.exposure import exposed
from mig_manager.agent.inventory import GPU_MISSING, INVENTORY_CHANGED
from mig_manager.agent.modes import why_reboot
from mig_manager.agent.planning import counts, impact_of
from mig_manager.agent.reconciler import Ending
from mig_manager.agent.results import Done
from mig_manager.api.conditions import Condition, ConditionValue, carried_over
from mig_manager.api.mignode import MIGNode
from mig_manager.api.mignode_status import GpuStatus, MIGNodeStatus, Mode, PlanStatus, Summary
from mig_manager.api.patch import merge_patch
from mig_manager.geometry.state import Card, GpuInstance
from mig_manager.gpu.port import GpuLostError, GpuNeedsResetError
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.kube.port import Object
from mig_manager.planner.plan import Plan
from mig_manager.planner.strategy import Strategy
from mig_manager.wording import shortened

NOT_EXPOSED = ("NotAdvertised", "ClientsDoNotTolerateTaint")
"""Reasons that mean: the slices are there, but nobody can have them."""

NOT_THERE = (GPU_MISSING, INVENTORY_CHANGED, GpuLostError.reason, GpuNeedsResetError.reason)
"""Reasons that mean: the hardware is not what it was."""

READY = "Ready"
"""The type of the condition that says whether the node is as it shall be."""

_EVICTIONS_NAMED = 10
_NAME_LIMIT = 256


def write_status(ctx: Context, ending: Ending) -> MIGNodeStatus | None:
    """Write what has changed and return the status as it is then; ``None`` without a MIGNode.

    A plain patch, but to exactly this object: one that was made anew under the same name has another uid. ClusterError.
    """
    if ctx.mignode is None or ctx.raw_mignode is None:
        return None
    after = status_of(ctx, ending)
    _write(ctx, ctx.mignode, ctx.raw_mignode, after)
    return after


def write_failure(ctx: Context, ending: Ending) -> None:
    """Write at which step a pass failed, and why, and nothing else: what was written before may be old. ClusterError.

    Nothing is promised by that. The next pass that does not fail says the rest.
    """
    before = ctx.status
    if ctx.mignode is None or ctx.raw_mignode is None:
        return
    reason, message = getattr(ending.result, "reason", ""), getattr(ending.result, "message", "")
    failed = Condition(READY, "False", reason, shortened(message), ctx.now, ctx.mignode.generation)
    others = (condition for condition in before.conditions if condition.type != READY)
    conditions = carried_over(before.conditions, (failed, *others))
    since = before.since if before.step == ending.step and before.since else ctx.now
    _write(ctx, ctx.mignode, ctx.raw_mignode, replace(before, step=ending.step, since=since, conditions=conditions))


def _write(ctx: Context, mignode: MIGNode, raw: Object, after: MIGNodeStatus) -> None:
    patch = merge_patch(raw.get("status") or {}, after.to_dict())
    if patch:
        body = {"metadata": {"uid": mignode.uid}, "status": patch}
        ctx.ports.cluster.patch(MIG_NODE, mignode.name, body, subresource="status")


def status_of(ctx: Context, ending: Ending) -> MIGNodeStatus:
    """The status as it should be. A pass that could not read everything only says so, and promises nothing."""
    before = ctx.status
    free = ctx.observed and ctx.hold is None and not ctx.ours
    # A node on which nothing is done is at no step; what it waits for is the reason of its condition Ready.
    step = "" if free else ending.step
    after = replace(
        before,
        # An answer to a generation promises that nothing of ours is left, unless a hold was written along with it.
        observed_generation=ctx.mignode.generation if free and ctx.mignode else before.observed_generation,
        grant=ctx.draft.grant or before.grant,
        step=step,
        since=before.since if before.step == step and before.since else ctx.now,
        boot_id=ctx.boot_id,
        conditions=_conditions(ctx, ending),
    )
    if not ctx.observed:
        return after
    if ctx.driver_error is not None:
        return replace(after, plan=None, gpus=(), summary=Summary(), resources={}, slices_missing=False)
    return replace(
        after,
        plan=_plan_status(ctx),
        gpus=tuple(gpu_status(card) for card in ctx.cards),
        summary=_summary(ctx.cards),
        slices_missing=ctx.repairable,
        resources=device_counts(d for d in exposed(ctx) if d.name is not None),
    )


def gpu_status(card: Card) -> GpuStatus:
    """One card as the status shows it."""
    return GpuStatus(
        index=card.index,
        uuid=card.uuid,
        model=card.model,
        bus_id=card.bus_id,
        memory_mib=card.memory_mib,
        mig=_mode(card.mig_current),
        pending_mig=_mode(card.mig_pending) if card.mig_pending is not card.mig_current else None,
        slices=tuple(_slice(card, instance) for instance in sorted(card.instances, key=lambda i: i.placement)),
    )


def _mode(enabled: bool | None) -> Mode | None:
    return None if enabled is None else "Enabled" if enabled else "Disabled"


def _slice(card: Card, instance: GpuInstance) -> str:
    profile = card.profiles[instance.profile_id]
    sizes = [c.placement.size for c in sorted(instance.compute, key=lambda c: c.placement)]
    inner = "" if sizes == [profile.slice_count] else f"[{','.join(f'{size}c' for size in sizes)}]"
    return f"{profile}@{instance.placement.start}{inner}"


def _summary(cards: tuple[Card, ...]) -> Summary:
    models = Counter(card.model for card in cards)
    slices = Counter(str(d.name) for d in devices_of(cards, Strategy.MIXED) if d.name is not None)
    return Summary(_listed(models), _listed(slices))


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{count}x {name}" for name, count in sorted(counted.items()))[:_NAME_LIMIT]


def _plan_status(ctx: Context) -> PlanStatus | None:
    desired = ctx.desired
    if desired is None:
        return None
    if ctx.draft.plan is None:
        reason, _, text = desired.error.partition(": ")
        return PlanStatus(desired.hash, reason=reason or "UnknownProfile", message=shortened(text))
    plan, obstacle = plan_status(desired.hash, ctx.draft.plan), ctx.draft.obstacle
    if obstacle is not None and ctx.draft.plan.changes:
        return replace(plan, reason=obstacle.reason, message=shortened(obstacle.message))
    why = why_reboot(ctx, ctx.draft.plan)
    return replace(plan, message=shortened(why)) if why else plan


def plan_status(layout_hash: str, plan: Plan) -> PlanStatus:
    """A plan as the status shows it."""
    if plan.reason is not None:
        return PlanStatus(layout_hash, reason=plan.reason.reason, message=shortened(str(plan.reason)))
    create, destroy = counts(plan)
    return PlanStatus(
        hash=layout_hash,
        impact=impact_of(plan).value,
        keep=sum(len(card.difference.keep) for card in plan.cards),
        create=create,
        destroy=destroy,
        evict=tuple(holder.name for holder in plan.evict[:_EVICTIONS_NAMED]),
        evict_count=len(plan.evict),
    )


def _conditions(ctx: Context, ending: Ending) -> tuple[Condition, ...]:
    result = ending.result
    ready = isinstance(result, Done)
    reason = "Ready" if ready else getattr(result, "reason", "")
    message = "" if ready else getattr(result, "message", "")
    grant = ctx.draft.grant or ctx.status.grant
    broken = grant is not None and grant.state == "Released" and grant.result in ("Failed", "RolledBack")
    if broken and grant is not None and not ready:
        degraded: tuple[ConditionValue, str, str] = ("True", grant.reason, grant.message)
    elif ctx.record.failed:
        degraded = ("True", "ChangeFailed", ctx.record.failed)
    elif reason in NOT_EXPOSED + NOT_THERE:
        degraded = ("True", reason, message)
    else:
        degraded = ("False", "AsExpected", "")
    said: dict[str, tuple[ConditionValue, str, str]] = {
        READY: ("True" if ready else "False", reason or "Unknown", message),
        "Degraded": degraded,
    }
    generation = ctx.mignode.generation if ctx.mignode else 0
    now = [
        Condition(kind, status, why, shortened(text), ctx.now, generation) for kind, (status, why, text) in said.items()
    ]
    return carried_over(ctx.status.conditions, now)
