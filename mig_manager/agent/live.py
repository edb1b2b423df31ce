"""Reading the world: the pods of the node, the cards, and who holds what, at this moment."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mig_manager.agent.context import Context, Ports
from mig_manager.agent.devices import devices_of
from mig_manager.agent.holding import holding
from mig_manager.agent.modes import as_known
from mig_manager.agent.pods import Pod
from mig_manager.geometry.state import Card, Holders
from mig_manager.gpu.port import GpuSession, NotUnderstoodError
from mig_manager.kube.kinds import POD
from mig_manager.kube.podresources.client import PodResourcesError
from mig_manager.kube.podresources.values import PodDevices

_log = logging.getLogger(__name__)

_UNREADABLE = "unreadable"


def pods_on(ports: Ports, node: str) -> tuple[Pod, ...]:
    """Every pod that is bound to the node."""
    return tuple(Pod(body) for body in ports.cluster.list(POD, fields=f"spec.nodeName={node}").items)


@dataclass(frozen=True, slots=True)
class LiveHolders:
    """Finds holders for ``mig_manager.gpu.apply``: all is fresh but the API's pods, which are those of the pass.

    The node is cordoned by then, so a pod that the API's list lacks can only be a DaemonSet's; the kubelet lists it as
    soon as it has a device.
    """

    ctx: Context

    def __call__(self, session: GpuSession, gpu_uuids: Collection[str]) -> Holders:
        """Who holds what on these cards; PodResourcesError when the kubelet does not say."""
        ctx, ports = self.ctx, self.ctx.ports
        cards = as_known(ctx, (session.card(uuid) for uuid in gpu_uuids))
        devices = tuple(devices_of(cards, ctx.strategy))
        users = ports.users(session, cards)
        return holding(devices, ctx.pods, ports.pod_resources.list(), users, ctx.settings.clients).holders


def read_cards(ctx: Context) -> None:
    """Read the cards, and who uses them, into the context; GpuError. A kubelet that does not answer is noted."""
    with ctx.ports.gpus.session() as session:
        ctx.cards = session.cards()
        _check_named(ctx.cards)
        users = ctx.ports.users(session, as_known(ctx, ctx.cards))
    _note_unreadable(ctx, users.unreadable)
    kubelet: tuple[PodDevices, ...] = ()
    try:
        kubelet = ctx.ports.pod_resources.list()
    except PodResourcesError as error:
        ctx.kubelet_error = str(error)
    ctx.holding = holding(ctx.devices, ctx.pods, kubelet, users, ctx.settings.clients)


def _check_named(cards: Sequence[Card]) -> None:
    """The kubelet knows slices by their UUIDs alone: without one nobody can say who is in a slice's way."""
    for card in cards:
        for instance in card.instances:
            for compute in instance.compute:
                if not compute.uuid:
                    act = f"reading the MIG devices of GPU {card.index}"
                    which = f"compute instance {compute.id} of GPU instance {instance.id}"
                    raise NotUnderstoodError(act, f"there is none for {which}")


def _note_unreadable(ctx: Context, count: int) -> None:
    """Say once that some processes may hold what nobody sees; NVML still refuses to destroy what they use."""
    if not count:
        ctx.memory.forget(_UNREADABLE)
    elif _UNREADABLE not in ctx.memory.since:
        ctx.memory.waited_s(_UNREADABLE, ctx.node_now)
        lacking = "CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH or hostPID"
        _log.warning("the open files of %d processes cannot be read: the agent lacks %s", count, lacking)
