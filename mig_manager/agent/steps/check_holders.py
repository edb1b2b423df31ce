"""Step 11: nothing uses what goes, looked at after the clients have gone. Rule A5."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.live import read_cards
from mig_manager.agent.planning import in_the_way, plan_all
from mig_manager.agent.results import CONTINUE, SOON_S, StepResult, Wait
from mig_manager.geometry.state import said


def check_holders(ctx: Context) -> StepResult:
    """With the clients away, kubelet, NVML and open device files name nobody on what is to be destroyed.

    Otherwise the culprits are named. Nothing is changed, so a crash leaves nothing.
    """
    if ctx.work is None or not ctx.work.changes:
        return CONTINUE
    read_cards(ctx)
    if ctx.kubelet_error:
        return Wait("KubeletUnreachable", SOON_S, ctx.kubelet_error)
    plan_all(ctx)
    way = in_the_way(ctx.work, ctx.holding.holders)
    return Wait("InUse", SOON_S, f"in use by {said(way)}") if way else CONTINUE
