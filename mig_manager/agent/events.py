"""Events for people: one per transition, on the Node and on the MIGNode.

A transition is a difference between the status that was there and the one that was written, so an agent that starts
anew repeats nothing. An Event that cannot be posted is lost; what it said stands in the status.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mig_manager.agent.context import Context
from mig_manager.agent.results import NOT_YET
from mig_manager.api.mignode_status import GrantStatus, MIGNodeStatus
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.events import EventType, post
from mig_manager.kube.kinds import POD
from mig_manager.planner.plan import Impact
from mig_manager.wording import shortened

_log = logging.getLogger(__name__)

Said = tuple[EventType, str, str]
"""Type, reason and message of an Event."""

EVICTION = "RepartitionEviction"
"""The reason of the Event on a pod that is about to be evicted."""

_QUIET = frozenset(
    {
        "AwaitingAdvertised",
        "Conflict",
        "Draining",
        "GrantChanged",
        "NotWanted",
        "Paused",
        "PausingClients",
        "Ready",
        NOT_YET,
    }
)
"""Reasons that come and go in the course of things."""


def announce(ctx: Context, before: MIGNodeStatus, after: MIGNodeStatus) -> None:
    """Log and post what has changed."""
    remarks = [(EventType.WARNING, reason, shortened(message)) for reason, message in ctx.draft.remarks]
    for said in [*transitions(before, after), *remarks]:
        _, reason, message = said
        _log.info("%s: %s", reason, message, extra={"node": ctx.settings.node, "reason": reason})
        for regarding in filter(None, (ctx.node, ctx.raw_mignode)):
            _post(ctx, regarding, said)


def announce_evictions(ctx: Context, pods: Sequence[Mapping[str, Any]]) -> None:
    """Tell pods, once each, that they are going to be evicted and what for.

    The agent may create Events in every namespace and nothing else there; one that cannot be posted is lost.
    """
    uids = frozenset(pod["metadata"]["uid"] for pod in pods)
    grant, node = ctx.grant, ctx.settings.node
    why = f" for profile {grant.layout.name}" if grant is not None and grant.layout.name else ""
    cause = f"the GPUs of Node {node} are repartitioned{why}"
    reboots = ctx.work is not None and ctx.work.impact is Impact.REBOOT_NODE
    fate = "the Node is rebooted" if reboots else "it uses a GPU slice that goes"
    text = f"it is to be evicted as soon as budgets allow: {fate}, since {cause}"
    for pod in pods:
        if pod["metadata"]["uid"] not in ctx.memory.announced:
            # Items of a list come without their kind.
            regarding = {"apiVersion": POD.api_version, "kind": POD.name, **pod}
            _log.info("%s: pod=%s/%s", EVICTION, pod["metadata"]["namespace"], pod["metadata"]["name"])
            _post(ctx, regarding, (EventType.NORMAL, EVICTION, text), host=node, once=True)
    ctx.memory.announced = uids


def transitions(before: MIGNodeStatus, after: MIGNodeStatus) -> Iterator[Said]:
    """What happened between two statuses."""
    old, new = before.grant, after.grant
    if new is not None and (old is None or (old.id, old.state, old.result) != (new.id, new.state, new.result)):
        yield from _grant_event(old, new, after)
    was, now = _ready(before), _ready(after)
    if now and now != was and now[0] not in _QUIET and (new is None or now[0] != new.reason):
        yield EventType.WARNING, now[0], now[1] or now[0]


def _post(ctx: Context, regarding: Mapping[str, Any], said: Said, *, host: str = "", once: bool = False) -> None:
    event_type, reason, message = said
    try:
        post(
            ctx.ports.cluster,
            regarding,
            event_type=event_type,
            reason=reason,
            message=message,
            now=ctx.now,
            host=host,
            once=once,
        )
    except ClusterError as error:
        _log.warning("an Event was lost: %s", error)


def _grant_event(old: GrantStatus | None, new: GrantStatus, after: MIGNodeStatus) -> Iterator[Said]:
    if new.state != "Released":
        yield EventType.NORMAL, "RepartitionStarted", f"repartitioning under grant {new.id} ({new.state})"
    elif new.result == "Applied":
        # An acknowledgement of what was there already is no news.
        if old is not None and old.state != "Released":
            yield EventType.NORMAL, "Repartitioned", f"now {after.summary.slices or 'without slices'}"
    else:
        yield EventType.WARNING, new.reason or str(new.result), f"{new.result}: {new.message}"


def _ready(status: MIGNodeStatus) -> tuple[str, str] | None:
    condition = next((c for c in status.conditions if c.type == "Ready"), None)
    return (condition.reason, condition.message) if condition else None
