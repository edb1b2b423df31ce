"""The kubelet's topology manager: may a container have its devices, and from which NUMA node.

Written after pkg/kubelet/cm/topologymanager (policy_single_numa_node.go, scope container) and
devicemanager/topology_hints.go of Kubernetes 1.36. Hints that span several NUMA nodes are left out: this policy drops
them before it merges. Only device plugins give hints here, as under the kubelet's own defaults for CPUs and memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NumaNodes = Mapping[str, frozenset[int]]
"""The NUMA nodes of devices, by id; a device without is nowhere in particular."""


class TopologyPolicy(StrEnum):
    """The kubelet's ``topologyManagerPolicy``."""

    NONE = "none"
    SINGLE_NUMA_NODE = "single-numa-node"


class AffinityError(Exception):
    """No NUMA node has everything that a container asks for; the text is the kubelet's own."""

    def __init__(self) -> None:
        super().__init__("Resources cannot be allocated with Topology locality")


@dataclass(frozen=True, slots=True)
class Request:
    """How many devices of a resource a container wants.

    ``devices`` are all that its plugin lists, healthy or not, ``available`` what is free, and ``reusable`` what the
    pod's init containers had.
    """

    needed: int
    devices: NumaNodes
    available: Collection[str]
    reusable: Collection[str]

    @property
    def has_preference(self) -> bool:
        """Whether the plugin says of any device where it is."""
        return any(self.devices.values())

    def hints(self) -> set[int]:
        """The NUMA nodes that could serve it alone."""
        known = sorted(frozenset[int]().union(*self.devices.values()))
        # A request that no single node could serve, however idle, prefers several, and this policy wants none of that.
        if not any(self._on(node, self.devices) >= self.needed for node in known):
            return set()
        return {node for node in known if self._can_serve(node)}

    def _can_serve(self, node: int) -> bool:
        placed = [device for device in self.reusable if self.devices.get(device)]
        if self._on(node, placed) < len(placed):
            return False
        return len(placed) + self._on(node, self.available) >= self.needed

    def _on(self, node: int, devices: Iterable[str]) -> int:
        return sum(node in self.devices.get(device, ()) for device in devices)


def single_numa_node(requests: Iterable[Request]) -> int | None:
    """The NUMA node from which all devices of a container come, ``None`` for any; AffinityError when there is none."""
    hints = [request.hints() for request in requests if request.has_preference]
    if not hints:
        return None
    common = set.intersection(*hints)
    if not common:
        raise AffinityError
    return min(common)
