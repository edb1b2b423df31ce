"""Reading the world: the pods of the node, the cards, and who holds what, at this moment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mig_manager.agent.context import Context, Ports
from mig_manager.agent.devices import devices_of
from mig_manager.agent.holding import holding
from mig_manager.agent.pods import Pod
from mig_manager.geometry.state import Holders
from mig_manager.gpu.port import GpuSession
from mig_manager.kube.kinds import POD
from mig_manager.kube.podresources.client import PodResourcesError
from mig_manager.kube.podresources.values import PodDevices
from mig_manager.planner.strategy import Strategy


def pods_on(ports: Ports, node: str) -> tuple[Pod, ...]:
    """Every pod that is bound to the node."""
    return tuple(Pod(body) for body in ports.cluster.list(POD, fields=f"spec.nodeName={node}").items)


@dataclass
class LiveHolders:
    """Finds holders for ``mig_manager.gpu.apply``: fresh from kubelet and NVML, with the API's pods of the last look.

    The node is cordoned by then, so a pod that the API's list lacks can only be a DaemonSet's; the kubelet lists it as
    soon as it has a device.
    """

    ports: Ports
    strategy: Strategy
    pods: tuple[Pod, ...]

    def __call__(self, session: GpuSession, gpu_uuids: Collection[str]) -> Holders:
        """Who holds what on these cards; PodResourcesError when the kubelet does not say."""
        cards = [session.card(uuid) for uuid in gpu_uuids]
        devices = tuple(devices_of(cards, self.strategy))
        return holding(
            devices, self.pods, self.ports.pod_resources.list(), self.ports.processes(session, gpu_uuids)
        ).holders


def read_cards(ctx: Context) -> None:
    """Read the cards, and who uses them, into the context; GpuError. A kubelet that does not answer is noted."""
    with ctx.ports.gpus.session() as session:
        ctx.cards = session.cards()
        processes = ctx.ports.processes(session, [card.uuid for card in ctx.cards])
    kubelet: tuple[PodDevices, ...] = ()
    try:
        kubelet = ctx.ports.pod_resources.list()
    except PodResourcesError as error:
        ctx.kubelet_error = str(error)
    ctx.holding = holding(ctx.devices, ctx.pods, kubelet, processes)
