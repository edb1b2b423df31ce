"""A plan for programs: the JSON that ``mig-manager plan -o json`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import Card, GpuInstance, Holders, SliceKey, holders_of_instance
from mig_manager.planner.plan import CardPlan, Plan
from mig_manager.planner.target import KeptSlice, TargetSlice
from mig_manager.render.plan import advertised, profile_name


def plan_document(plan: Plan, holders: Holders) -> dict[str, Any]:
    """The plan with every placement.

    ``reason`` is one CamelCase word and ``message`` the sentence to it; both are null when there is a plan.
    """
    return {
        "feasible": plan.feasible,
        "changes": plan.changes,
        "impact": str(plan.impact),
        "evict": [holder.name for holder in plan.evict],
        "resources": dict(advertised(plan)) if plan.feasible else {},
        "reason": plan.reason.reason if plan.reason else None,
        "message": str(plan.reason) if plan.reason else None,
        "gpus": [_card_document(card, holders) for card in plan.cards],
    }


def _card_document(plan: CardPlan, holders: Holders) -> dict[str, Any]:
    card, change = plan.card, plan.difference
    return {
        "index": card.index,
        "uuid": card.uuid,
        "model": card.model,
        "managed": plan.target is not None,
        "mig": {
            "current": card.mig_current,
            "pending": card.mig_pending,
            "planned": plan.target.mig if plan.target else None,
        },
        "reset": plan.reset,
        "keep": [_kept(k, card, holders) for k in change.keep],
        "destroy": [_instance(i, card, holders) for i in change.destroy],
        "create": [_created(s, card) for s in change.create],
        "evict": [holder.name for holder in plan.evict],
        "reason": plan.reason.reason if plan.reason else None,
        "message": str(plan.reason) if plan.reason else None,
    }


def _instance(instance: GpuInstance, card: Card, holders: Holders) -> dict[str, Any]:
    return {
        **_slice(instance.profile_id, instance.placement, card.table),
        "compute": [
            {
                **_compute(c.placement),
                "busy": SliceKey(card.uuid, instance.id, c.id) in holders,
            }
            for c in sorted(instance.compute, key=lambda c: c.placement)
        ],
        "busy": bool(holders_of_instance(holders, card.uuid, instance.id)),
    }


def _kept(kept: KeptSlice, card: Card, holders: Holders) -> dict[str, Any]:
    return {
        **_instance(kept.instance, card, holders),
        "destroyCompute": _computes(c.placement for c in kept.destroy_compute),
        "createCompute": _computes(kept.create_compute),
    }


def _created(piece: TargetSlice, card: Card) -> dict[str, Any]:
    return {
        **_slice(piece.profile_id, piece.placement, card.table),
        "compute": [{**c, "busy": False} for c in _computes(piece.compute)],
        "busy": False,
    }


def _slice(profile_id: int, placement: Placement, table: ProfileTable | None) -> dict[str, Any]:
    return {
        "profile": profile_name(table, profile_id),
        "profileId": profile_id,
        "start": placement.start,
        "size": placement.size,
    }


def _computes(placements: Iterable[Placement]) -> list[dict[str, Any]]:
    return [_compute(placement) for placement in sorted(placements)]


def _compute(placement: Placement) -> dict[str, Any]:
    return {"profile": f"{placement.size}c", "start": placement.start, "size": placement.size}
