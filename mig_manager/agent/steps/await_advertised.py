"""Step 16: the kubelet advertises exactly what is on the cards."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.exposure import missing, why_not
from mig_manager.agent.nudging import nudge_older_than_cut
from mig_manager.agent.results import CONTINUE, SOON_S, StepResult, Wait


def await_advertised(ctx: Context) -> StepResult:
    """The kubelet lists exactly the planned device ids, and the Node's allocatable says the same.

    A device plugin that runs since before the cut would never list them, and is started anew at once. Past the deadline
    the rest that is healthy is let go, and the node counts as Degraded.

    That cannot loop: work begins by what NVML shows, never by what the kubelet lists. A crash leaves a plugin that is
    starting; the deadline starts anew, and when the cards were changed is forgotten, so that an old plugin is found out
    after the deadline only.
    """
    why = missing(ctx)
    if not why:
        ctx.memory.forget("advertised")
        return CONTINUE
    nudged = nudge_older_than_cut(ctx)
    if nudged:
        why = f"{why}: {nudged}"
    hold = ctx.hold
    # A repair has the id of the grant that it is made under, and a time of its own.
    waited = ctx.memory.waited_s(f"advertised {hold.since if hold else ''}", ctx.node_now)
    if waited < ctx.settings.advertise_timeout_s:
        word = why_not(ctx)
        return Wait("AwaitingAdvertised" if word == "NotAdvertised" else word, SOON_S, why)
    ctx.draft.degraded = why
    return CONTINUE
