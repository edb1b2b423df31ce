"""Whether somebody else is in charge of this node or of its cards, or its GPU clients cannot be made to go.

That is asked before anything is closed, evicted or destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mig_manager.agent.clients import GpuClient, due
from mig_manager.agent.context import Context
from mig_manager.agent.foreign import dra_driver, foreign_manager, mps
from mig_manager.agent.maintenance import maintenance, maintenance_lease
from mig_manager.agent.planning import changes_mode
from mig_manager.agent.pods import Pod
from mig_manager.agent.results import Refuse, Wait
from mig_manager.kube.errors import ConflictError, ForbiddenError, NotFoundError
from mig_manager.kube.kinds import POD
from mig_manager.planner.plan import Plan

MAINTENANCE_RETRY_S = 30.0

CLIENT_FORBIDDEN = "ClientForbidden"
"""The reason for leaving a node as it is because the agent may not delete a GPU client's pods."""


def others_here(ctx: Context, work: Plan) -> Refuse | Wait | None:
    """Who is in charge, by what this pass has read; looked at until the first destroy."""
    manager = foreign_manager(ctx.node, ctx.pods)
    if manager:
        return Refuse("ForeignManager", manager)
    shared = mps(ctx.node, ctx.pods)
    if shared and any(card.target is not None and card.target.mig for card in work.cards):
        return Refuse("MPSConfigured", shared)
    return _immovable(ctx, work) or _maintained(maintenance(ctx.node))


def others_elsewhere(ctx: Context, work: Plan) -> Refuse | Wait | None:
    """Who is in charge, by requests that are made for this only; the last thing that is asked before a grant is used.

    So is whether the agent may delete what it will have to: found out after the drain, that would have cost evictions.
    What is found is remembered: no slot is given for as long as it is so.
    """
    found = _elsewhere(ctx) or _forbidden(ctx, work)
    ctx.memory.elsewhere = found is not None
    return found


def _elsewhere(ctx: Context) -> Refuse | Wait | None:
    driver = dra_driver(ctx.ports.cluster, ctx.settings.node)
    if driver:
        return Refuse("ForeignManager", driver)
    namespace = ctx.settings.maintenance_leases
    if not namespace:
        return None
    return _maintained(maintenance_lease(ctx.ports.cluster, namespace, ctx.settings.node, ctx.now))


def forbidden_message(error: ForbiddenError) -> str:
    """What helps where a GPU client's pods may not be deleted."""
    return f"{error}; allow it by a Role as in deploy/components/device-plugin/clients.yaml"


def _immovable(ctx: Context, work: Plan) -> Wait | None:
    """A GPU client that has to go and cannot be made to: the kubelet runs it, whatever the API says."""
    static = next(((client, pod) for client, pod in _to_delete(ctx, work) if pod.static), None)
    if static is None:
        return None
    client, pod = static
    text = f"{pod.full_name} ({client.name}) is a static pod of the kubelet: nothing keeps it away while slices change"
    cure = "remove its manifest from the node, and deploy it as a DaemonSet instead"
    return Wait("ClientCannotBePaused", MAINTENANCE_RETRY_S, f"{text}; {cure}")


def _forbidden(ctx: Context, work: Plan) -> Wait | None:
    """Try the deletions that the work will take; one per namespace, since rights are given by namespace."""
    for pod in {pod.namespace: pod for _, pod in _to_delete(ctx, work) if not pod.leaving}.values():
        try:
            with suppress(NotFoundError, ConflictError):
                ctx.ports.cluster.delete(POD, pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except ForbiddenError as error:
            return Wait(CLIENT_FORBIDDEN, MAINTENANCE_RETRY_S, forbidden_message(error))
    return None


def _to_delete(ctx: Context, work: Plan) -> Iterator[tuple[GpuClient, Pod]]:
    """The pods of GPU clients that the work will delete, with what they are."""
    for client in due(ctx.settings.clients, mode_change=changes_mode(work)):
        for pod in client.ungated(ctx.pods):
            yield client, pod


def _maintained(what: str) -> Wait | None:
    return Wait("OtherMaintenance", MAINTENANCE_RETRY_S, what) if what else None
