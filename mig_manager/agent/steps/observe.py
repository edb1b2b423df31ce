"""Step 1: everything is read fresh."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.live import pods_on, read_cards
from mig_manager.agent.results import CONTINUE, Refuse, StepResult
from mig_manager.api.mignode import MIGNode, MIGNodeSpec
from mig_manager.api.mignode_status import MIGNodeStatus
from mig_manager.geometry.errors import LayoutError
from mig_manager.gpu.port import GpuError
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import MIG_NODE, NODE
from mig_manager.kube.podresources.client import PodResourcesError
from mig_manager.kube.port import Object


def observe(ctx: Context) -> StepResult:
    """Node, MIGNode, pods, kubelet, cards, holders and the host file are in the context, as they are now.

    A MIGNode that is meant for another Node of this name, or that this program does not understand, wants nothing. A
    driver or kubelet that does not answer is noted, and every later step decides what can be done without. Nothing is
    changed, so a crash leaves nothing.
    """
    name = ctx.settings.node
    try:
        ctx.node = ctx.ports.cluster.get(NODE, name)
    except NotFoundError:
        return Refuse("NodeMissing", f"there is no Node {name}; is NODE_NAME right?")
    _read_mignode(ctx)
    ctx.pods = pods_on(ctx.ports, name)
    try:
        ctx.allocatable = ctx.ports.pod_resources.allocatable()
    except PodResourcesError as error:
        ctx.kubelet_error = str(error)
    ctx.record = ctx.ports.journal.read()
    try:
        read_cards(ctx)
    except GpuError as error:
        ctx.driver_error = error
    ctx.uncordoned = ctx.cordon.lifted
    ctx.observed = True
    return CONTINUE


def _read_mignode(ctx: Context) -> None:
    try:
        raw = ctx.ports.cluster.get(MIG_NODE, ctx.settings.node)
    except NotFoundError:
        return
    use_mignode(ctx, raw)
    ctx.reported = ctx.status


def use_mignode(ctx: Context, raw: Object) -> None:
    """Take a MIGNode that was read, or that a write returned, into the context."""
    try:
        found = MIGNode.from_dict(raw)
    except LayoutError as error:
        ctx.spec_error = error
        found = _without_wishes(raw)
    if found.spec.node_uid not in ("", ctx.node["metadata"]["uid"]):
        # Left over from a Node of this name that is gone: not ours to answer.
        ctx.mignode = ctx.raw_mignode = None
        return
    ctx.mignode, ctx.raw_mignode = found, raw


def _without_wishes(raw: Object) -> MIGNode:
    metadata = raw["metadata"]
    return MIGNode(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata["generation"],
        spec=MIGNodeSpec(raw.get("spec", {}).get("nodeUID", "")),
        status=MIGNodeStatus.from_dict(raw.get("status") or {}),
        deleting="deletionTimestamp" in metadata,
    )
