"""What the node exposes: what the kubelet lists, compared with what is on the cards."""

from __future__ import annotations

from mig_manager.agent import labels
from mig_manager.agent.clients import plugin_pods
from mig_manager.agent.context import Context
from mig_manager.agent.devices import Device, allocatable_counts, listed, offered, planned
from mig_manager.agent.names import APPLIED_PROFILE, CONFIG, STATE
from mig_manager.agent.ours import startup_tainted
from mig_manager.planner.strategy import Strategy


def exposed(ctx: Context) -> tuple[Device, ...]:
    """The devices that can be had: those the kubelet lists as healthy, or all where no plugin advertises anything."""
    if ctx.strategy is Strategy.NONE:
        return ctx.devices
    there = frozenset().union(*offered(ctx.allocatable).values())
    return tuple(d for d in ctx.devices if d.id in there)


def missing(ctx: Context) -> str:
    """Why the node does not (yet) advertise exactly what is on its cards; empty when it does.

    The kubelet must list exactly these device ids, and the Node's allocatable must say the same numbers. Zeros mean
    nothing: a name that was once advertised stays at zero for ever. Under time-slicing one device is listed several
    times; ids are compared without their replica numbers, and the Node with what the kubelet lists.
    """
    if ctx.strategy is Strategy.NONE:
        return ""
    if ctx.kubelet_error:
        return ctx.kubelet_error
    wanted, found = planned(ctx.devices), offered(ctx.allocatable)
    if wanted != found:
        lacks = sorted(name for name, ids in wanted.items() if ids - found.get(name, frozenset()))
        extra = sorted(name for name, ids in found.items() if ids - wanted.get(name, frozenset()))
        said = [f"does not list all of {', '.join(lacks)}"] if lacks else []
        said += [f"lists devices of {', '.join(extra)} that are not there"] if extra else []
        return f"the kubelet {' and '.join(said)}{_why_no_plugin(ctx)}"
    now, then = allocatable_counts(ctx.node.get("status", {}).get("allocatable") or {}), listed(ctx.allocatable)
    if now != then:
        return f"the Node's allocatable says {_said(now)} instead of {_said(then)}"
    return ""


def why_not(ctx: Context) -> str:
    """The CamelCase word for what ``missing`` says: a plugin that our own startup taint keeps away is a case apart."""
    kept_away = startup_tainted(ctx.node) and not plugin_pods(ctx.settings.clients, ctx.pods)
    return "ClientsDoNotTolerateTaint" if kept_away else "NotAdvertised"


def wanted_labels(ctx: Context, state: str) -> dict[str, str]:
    """Our labels as they should be now; none at all on a node that belongs to no pool."""
    desired = ctx.desired
    if desired is None:
        return {}
    found = {CONFIG: desired.config, STATE: state}
    if ctx.driver_error is None:
        found |= labels.card_labels(ctx.cards)
    found |= labels.slice_labels(exposed(ctx), ctx.strategy)
    applied = _applied_profile(ctx)
    return found | ({APPLIED_PROFILE: applied} if applied else {})


def _applied_profile(ctx: Context) -> str:
    """The profile whose layout is on the cards."""
    grant, desired = ctx.last_grant, ctx.desired
    if desired is not None and ctx.draft.plan is not None and ctx.draft.plan.feasible and not ctx.draft.plan.changes:
        return desired.profile
    if grant is not None and ctx.work is not None and ctx.work.feasible and not ctx.work.changes:
        return grant.layout.name
    return ""


def _why_no_plugin(ctx: Context) -> str:
    return "" if plugin_pods(ctx.settings.clients, ctx.pods) else "; no device plugin runs here"


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items())) or "nothing"
