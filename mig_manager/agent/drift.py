"""A cheap look at this machine between passes, without a request to the API server: has anything changed?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mig_manager.agent.context import Ports
from mig_manager.geometry.state import Card
from mig_manager.gpu.port import GpuError
from mig_manager.kube.podresources.client import PodResourcesError
from mig_manager.kube.podresources.values import Devices, PodDevices


@dataclass(frozen=True, slots=True)
class Look:
    """What cards and kubelet say; two looks are equal when nothing has happened that a pass should see.

    ``driver`` is why the cards cannot be read, in words that stay the same while the cause does.
    """

    cards: tuple[Card, ...] = ()
    driver: str = ""
    offered: tuple[Devices, ...] = ()
    held: tuple[PodDevices, ...] = ()
    kubelet_answers: bool = True


def look_idle(ports: Ports) -> Look:
    """Cards, and what the kubelet offers. Pods that come and go are nothing to an idle agent."""
    cards: tuple[Card, ...] = ()
    driver = ""
    try:
        with ports.gpus.session() as session:
            cards = session.cards()
    except GpuError as error:
        driver = str(error)
    try:
        return Look(cards, driver, tuple(sorted(ports.pod_resources.allocatable())))
    except PodResourcesError:
        return Look(cards, driver, kubelet_answers=False)


def have_gone(ports: Ports, pods: Collection[str]) -> bool:
    """Whether the kubelet runs none of these pods (``namespace/name``) any more; False for no pods and no answer."""
    try:
        return bool(pods) and not {pod.full_name for pod in ports.pod_resources.list()}.intersection(pods)
    except PodResourcesError:
        return False


def look_moving(ports: Ports) -> Look:
    """What the kubelet offers and pods hold, while pods and clients are waited for; the driver is left in peace."""
    try:
        held = sorted((p for p in ports.pod_resources.list() if p.devices), key=lambda p: p.full_name)
        return Look(offered=tuple(sorted(ports.pod_resources.allocatable())), held=tuple(held))
    except PodResourcesError:
        return Look(kubelet_answers=False)
