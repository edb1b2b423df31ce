"""What was learnt about MIG modes on this boot: which change only by a reboot, and which not even so.

NVML does not say that a card cannot be reset. It is found out by trying, once per boot, and kept in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mig_manager.agent.context import Context
from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.state import Card
from mig_manager.gpu.journal import Stuck
from mig_manager.planner.plan import CardPlan, Impact, Plan


def as_known(ctx: Context, cards: Iterable[Card]) -> list[Card]:
    """Cards as NVML shows them, with what was learnt about them on this boot."""
    stuck = _stuck(ctx)
    known = stuck.cards if stuck is not None else {}
    return [replace(card, mode_change=ModeChange.REBOOT) if card.uuid in known else card for card in cards]


def why_reboot(ctx: Context, plan: Plan) -> str:
    """Why the plan takes a reboot, for people; empty when it takes none."""
    stuck = _stuck(ctx)
    if plan.impact is not Impact.REBOOT_NODE or stuck is None:
        return ""
    return f"{_act(plan)} takes a reboot of the node: {_tried(stuck, plan)}"


def no_reboot(ctx: Context, plan: Plan) -> LayoutError | None:
    """Why the reboot that the plan takes cannot be: it was in vain already, or nobody configured how."""
    stuck = _stuck(ctx)
    if plan.impact is not Impact.REBOOT_NODE or stuck is None:
        return None
    if stuck.means == "reboot":
        problem = f"{_act(plan)} did not work by a reboot either: {_tried(stuck, plan)}"
        hint = "look at the driver's messages on the node (dmesg); it is tried again after another reboot"
        return LayoutError("RebootDidNotHelp", problem, hint)
    if ctx.ports.reboot is None:
        by_hand = " && ".join(
            f"nvidia-smi -i {p.card.uuid} -mig {int(p.target.mig)}" for p in _changing(plan) if p.target is not None
        )
        allow = "give the agents a --reboot-command and allow maxImpact: RebootNode"
        hint = f"{allow}; or drain the node, then {by_hand} && reboot"
        return LayoutError("RebootRequired", why_reboot(ctx, plan), hint)
    return None


def _stuck(ctx: Context) -> Stuck | None:
    """What was learnt, if it was on this boot."""
    stuck = ctx.record.stuck
    return stuck if stuck is not None and stuck.boot_id == ctx.boot_id else None


def _changing(plan: Plan) -> list[CardPlan]:
    """What is planned for the cards because of which the plan takes a reboot."""
    return [p for p in plan.cards if p.card.mode_change is ModeChange.REBOOT and not p.difference.becomes_current]


def _act(plan: Plan) -> str:
    return f"changing the MIG mode of {', '.join(p.card.label for p in _changing(plan))}"


def _tried(stuck: Stuck, plan: Plan) -> str:
    """What was said when it was tried."""
    return "; ".join(sorted({stuck.cards[p.card.uuid] for p in _changing(plan)}))
