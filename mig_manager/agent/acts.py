"""What several steps do to the Node: cordon, pause, resume, let it back in. Each is one patch that records itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from mig_manager.agent import labels
from mig_manager.agent.autoscalers import keep_off
from mig_manager.agent.clients import GpuClient, due, must_go, plugin_pods, resume_patch, wanted_pause
from mig_manager.agent.clients import pause_patch as patch_for
from mig_manager.agent.context import Context
from mig_manager.agent.devices import offered
from mig_manager.agent.identity import cordon_note
from mig_manager.agent.names import CORDONED, STATE
from mig_manager.agent.ours import handed_back, untainted
from mig_manager.agent.planning import changes_mode
from mig_manager.agent.pods import Pod
from mig_manager.agent.results import CONTINUE, SOON_S, Refuse, StepResult, Wait
from mig_manager.kube.drain.naming import named
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.ownership import is_tracked
from mig_manager.planner.strategy import Strategy

UPDATING = "updating"


def patch_node(ctx: Context, body: Mapping[str, Any]) -> None:
    """Patch exactly this Node, not one that was registered anew; the context goes on with the answer."""
    metadata = {**body.get("metadata", {}), "uid": ctx.node["metadata"]["uid"]}
    ctx.node = ctx.ports.cluster.patch(NODE, ctx.settings.node, {**body, "metadata": metadata})


def cordon(ctx: Context) -> StepResult:
    """Make the node unschedulable, unless somebody has; annotation and field are one patch on the Node that was read.

    Rule A4: only under Held, or if that very Node says that it is unavailable anyway. Autoscalers are kept off in the
    same patch; off a node that somebody else has cordoned too, since they take such nodes away.
    """
    kept = keep_off(ctx.node, ctx.ports.cluster.manager)
    if ctx.cordon.unschedulable:
        if kept:
            patch_node(ctx, {"metadata": {"annotations": kept}})
        return CONTINUE
    refusal = untracked(ctx)
    if refusal is not None:
        return refusal
    hold = ctx.hold
    held = hold is not None and hold.state == "Held"
    if not held and not ctx.unavailable:
        return Wait("NodeAvailable", SOON_S, "the node is available, and no slot is held for taking it out")
    metadata = {
        "resourceVersion": ctx.node["metadata"]["resourceVersion"],
        "annotations": {CORDONED: cordon_note(hold.id if hold else 0, ctx.now), **kept},
        "labels": {STATE: UPDATING},
    }
    patch_node(ctx, {"metadata": metadata, "spec": {"unschedulable": True}})
    return CONTINUE


def untracked(ctx: Context) -> Refuse | None:
    """Why no cordon can be made: it could not be told from a person's afterwards, and would stay for ever (rule A8)."""
    if ctx.cordon.unschedulable or is_tracked(ctx.node):
        return None
    return Refuse("OwnershipUnknown", "the API server keeps no managedFields for this Node; cordon it by hand")


def pause(ctx: Context) -> StepResult:
    """Send the GPU clients away, with their former labels recorded in the same patch, and wait until they are gone.

    The labels that promise slices go in that patch too: what no plugin offers is not exposed.
    """
    clients = due_clients(ctx)
    paused = wanted_pause(clients, ctx.node, ctx.pods, ctx.strategy_of("Auto"))
    body = patch_for(paused, ctx.node)
    if body:
        present = ctx.node["metadata"].get("labels") or {}
        body["metadata"]["labels"] |= dict.fromkeys(labels.promises(present))
        patch_node(ctx, body)
    there = must_go(clients, paused, ctx.pods)
    for pod in there:
        if not pod.leaving and not any(c.is_pod(pod) and c.gated(pod) for c in clients):
            delete_pod(ctx, pod)
    if there:
        names = named(pod.body for pod in sorted(there, key=lambda pod: pod.full_name))
        return Wait("PausingClients", SOON_S, f"waiting for GPU clients to go: {names}")
    away = any(c.plugin and (c.gate in paused.gates or paused.taint) for c in clients)
    still = offered(ctx.allocatable)
    if away and still and ctx.strategy is not Strategy.NONE and not _only_restarted(ctx, paused.restart):
        return Wait("PausingClients", SOON_S, f"the kubelet still offers {', '.join(sorted(still))}")
    return CONTINUE


def due_clients(ctx: Context) -> tuple[GpuClient, ...]:
    """The GPU clients that have to be away for the work of this pass."""
    return due(ctx.settings.clients, mode_change=changes_mode(ctx.work))


def restart_clients(ctx: Context) -> None:
    """Delete the pods of paused clients that cannot be kept away; their DaemonSets make new ones."""
    paused = ctx.pause
    for client in ctx.settings.clients:
        if paused is not None and client.name in paused.restart:
            for pod in client.ungated(ctx.pods):
                delete_pod(ctx, pod)


def resume(ctx: Context) -> None:
    """Restore what we paused, and drop the record of it in the same patch."""
    paused = ctx.pause
    if paused is not None:
        patch_node(ctx, resume_patch(paused, ctx.node))


def leave(ctx: Context, wanted: Mapping[str, str | None], *, ready: bool) -> None:
    """Let the node back in: clients resumed, uncordoned if it is our cordon, labels as wanted, all in one patch.

    Autoscalers may have it again. With ``ready`` the startup taint goes too. Somebody else's cordon stays, whatever our
    annotation says.
    """
    body = handed_back(ctx.node, ctx.ports.cluster.manager)
    if wanted:
        body["metadata"]["labels"] = body["metadata"].get("labels", {}) | dict(wanted)
    if ready:
        body = untainted(body, ctx.node)
    if body["metadata"] or "spec" in body:
        patch_node(ctx, body)


def delete_pod(ctx: Context, pod: Pod) -> None:
    """Ask for exactly this pod's deletion; one that is gone already is as well."""
    with suppress(NotFoundError, ConflictError):
        ctx.ports.cluster.delete(POD, pod.name, pod.namespace, uid=pod.uid)


def _only_restarted(ctx: Context, restart: Iterable[str]) -> bool:
    """Whether a device plugin that cannot be kept away is among the pods here: then the kubelet goes on offering."""
    here = plugin_pods([c for c in ctx.settings.clients if c.name in set(restart)], ctx.pods)
    return bool(here)
