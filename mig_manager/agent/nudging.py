"""Starting a device plugin anew that does not see the cards as they are.

NVIDIA's plugin reads the cards at its start and never again. It is away while they are cut; where it comes back in that
very moment (somebody sets its deploy label, which was absent) it goes on offering what it saw until it starts anew.
"""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.clients import plugin_pods
from mig_manager.agent.context import Context
from mig_manager.agent.devices import offered, planned
from mig_manager.agent.pods import Pod
from mig_manager.kube.errors import ForbiddenError

NUDGE_AFTER_S = 60.0
_STALE = "stale"

REGISTERED_AFTER_S = 10.0
"""A plugin that is ready has told the kubelet by then what it has found."""


def nudge_plugin(ctx: Context) -> str:
    """Start the device plugin anew when it goes on offering what is no longer there, or not what is.

    For slices that somebody changed by hand, which stay unknown to it. Once for a set of devices and only after a
    while: a plugin that cannot advertise them is not helped by more of it. Where the agent may not delete it, it is
    said who has to; empty otherwise.
    """
    devices = frozenset(d.id for d in ctx.devices)
    if ctx.kubelet_error or devices == ctx.memory.nudged:
        return ""
    if ctx.memory.waited_s(f"{_STALE} {sorted(devices)}", ctx.node_now) < NUDGE_AFTER_S:
        return ""
    for pod in plugin_pods(ctx.settings.clients, ctx.pods):
        if pod.ready:
            try:
                acts.delete_pod(ctx, pod)
            except ForbiddenError as error:
                return f"{pod.full_name} does not see the cards as they are and must be deleted by hand: {error}"
            ctx.memory.nudged = devices
    return ""


def no_longer_stale(ctx: Context) -> None:
    """The kubelet lists what is there: when it does not the next time, that is waited for anew."""
    ctx.memory.forget(_STALE)


def nudge_older_than_cut(ctx: Context) -> str:
    """Start a device plugin anew at once that runs since before the cards were changed; what was done, for people.

    Once for a change, and never one that is only starting. Where the agent may not delete it that is said, and it is
    waited for like any other.
    """
    if ctx.kubelet_error or planned(ctx.devices) == offered(ctx.allocatable):
        return ""
    pods = [pod for pod in plugin_pods(ctx.settings.clients, ctx.pods) if _is_older(ctx, pod)]
    if not pods:
        return ""
    names = ", ".join(pod.full_name for pod in pods)
    said = f"{names} runs since before the cards were changed"
    try:
        for pod in pods:
            acts.delete_pod(ctx, pod)
    except ForbiddenError as error:
        said = f"{said} and must be deleted by hand: {error}"
    else:
        said = f"{said} and is started anew"
    # Only now: a request that failed otherwise is made again by the next pass.
    ctx.memory.cut_at = None
    ctx.draft.remarks.append(("StaleDevicePlugin", said))
    return said


def _is_older(ctx: Context, pod: Pod) -> bool:
    """Whether a plugin that is ready was there before the last change of the cards came to its end.

    Kubernetes counts whole seconds: one that started in the very second is taken for younger first, and for older when
    it has had time enough to list what is there.
    """
    cut_at, started = ctx.memory.cut_at, pod.started
    if cut_at is None or started is None or not pod.ready or pod.leaving or started > cut_at:
        return False
    return started < cut_at.replace(microsecond=0) or (ctx.node_now - cut_at).total_seconds() > REGISTERED_AFTER_S
