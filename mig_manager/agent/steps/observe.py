"""Step 1: everything is read fresh."""

from __future__ import annotations

from collections.abc import Mapping

from mig_manager.agent.clients import plugin_pods
from mig_manager.agent.context import Context
from mig_manager.agent.live import pods_on, read_cards
from mig_manager.agent.results import CONTINUE, Refuse, StepResult
from mig_manager.agent.strategy import shown_strategy
from mig_manager.api.mignode import UNKNOWN_SCHEMA, MIGNode, MIGNodeSpec, read_status
from mig_manager.geometry.errors import LayoutError
from mig_manager.gpu.port import GpuError
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import MIG_NODE, NODE
from mig_manager.kube.podresources.client import PodResourcesError
from mig_manager.kube.port import Object


def observe(ctx: Context) -> StepResult:
    """Node, MIGNode, pods, kubelet, cards, holders and the host file are in the context, as they are now.

    A MIGNode that is meant for another Node of this name, or was written under another agreement, wants nothing. One
    that came past its schema and cannot be read wants nobody knows what: that ends the pass, so that nothing is changed
    and nothing let go. A driver or kubelet that does not answer is noted, and every later step decides what can be done
    without. Nothing is changed, so a crash leaves nothing.
    """
    name = ctx.settings.node
    try:
        ctx.node = ctx.ports.cluster.get(NODE, name)
    except NotFoundError:
        return Refuse("NodeMissing", f"there is no Node {name}; is NODE_NAME right?")
    understood = _read_mignode(ctx)
    ctx.pods = pods_on(ctx.ports, name)
    plugins = plugin_pods(ctx.settings.clients, ctx.pods)
    if plugins:
        ctx.memory.strategy = shown_strategy(plugins)
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
    ctx.observed = understood is CONTINUE
    return understood


def _read_mignode(ctx: Context) -> StepResult:
    try:
        raw = ctx.ports.cluster.get(MIG_NODE, ctx.settings.node)
    except NotFoundError:
        return CONTINUE
    understood = use_mignode(ctx, raw)
    ctx.reported = ctx.status
    return understood


def use_mignode(ctx: Context, raw: Object) -> StepResult:
    """Take a MIGNode that was read, or that a write returned, into the context.

    Refused is one that cannot be read. What was read before stays then; before the first read it is taken in without
    its wishes, so that the refusal can be written. Where its status cannot be read either, writing one would forget
    what the node is held for: the log says it alone.
    """
    if _node_uid(raw) not in ("", ctx.node["metadata"]["uid"]):
        # Left over from a Node of this name that is gone: not ours to answer.
        ctx.mignode = ctx.raw_mignode = None
        return CONTINUE
    try:
        ctx.mignode, ctx.raw_mignode = _read(ctx, raw), raw
    except LayoutError as error:
        if ctx.mignode is None:
            _take_without_wishes(ctx, raw)
        return Refuse(error.reason, f"{error}; nothing on this node is touched while its MIGNode says that")
    return CONTINUE


def _node_uid(raw: Object) -> str:
    spec = raw.get("spec")
    uid = spec.get("nodeUID") if isinstance(spec, Mapping) else None
    return uid if isinstance(uid, str) else ""


def _read(ctx: Context, raw: Object) -> MIGNode:
    try:
        return MIGNode.from_dict(raw)
    except LayoutError as error:
        if error.reason != UNKNOWN_SCHEMA:
            raise
        found = _without_wishes(raw)
        ctx.spec_error = error
        return found


def _take_without_wishes(ctx: Context, raw: Object) -> None:
    try:
        ctx.mignode, ctx.raw_mignode = _without_wishes(raw), raw
    except LayoutError:
        return


def _without_wishes(raw: Object) -> MIGNode:
    """What is sure of a MIGNode of which the spec is not understood; LayoutError when its status is not either."""
    metadata = raw["metadata"]
    return MIGNode(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata["generation"],
        spec=MIGNodeSpec(_node_uid(raw)),
        status=read_status(raw),
        deleting="deletionTimestamp" in metadata,
    )
