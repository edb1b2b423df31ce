"""The kubelet's device manager: which devices plugins offer, and which container holds which.

Written after pkg/kubelet/cm/devicemanager/manager.go of Kubernetes 1.36, whose error messages are kept. What it knows
of allocations outlives a restart of the kubelet, as the checkpoint file of the real one does.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mig_manager.sim.node.topology import NumaNodes, Request, TopologyPolicy, single_numa_node

STOP_GRACE_S = 300.0
"""How long capacity remembers the devices of a plugin that is gone (endpointStopGracePeriod in endpoint.go)."""

Held = dict[str, tuple[str, ...]]
"""Device ids by resource."""


class AllocationError(Exception):
    """A container cannot have the devices it asks for; the text is the kubelet's own."""


class Endpoint(Protocol):
    """The plugin behind a resource."""

    def preferred(self, available: list[str], must_include: list[str], size: int) -> list[str]:
        """Which devices the plugin would take; AllocationError when it does not answer."""
        ...

    def allocate(self, devices: list[str]) -> None:
        """Tell the plugin that a container gets these; AllocationError when it refuses."""
        ...


@dataclass
class _Resource:
    endpoint: Endpoint | None
    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)
    numa_nodes: NumaNodes = field(default_factory=dict)
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Devices of a resource as the Node's status shows them."""

    capacity: int
    allocatable: int


class DeviceManager:
    """The devices of one node. Allocation happens in one thread; updates and questions may come from any.

    ``clock`` counts seconds, ``seed`` decides which of several free devices a container gets, and ``policy`` whether
    they have to be close to each other.
    """

    def __init__(self, clock: Callable[[], float], seed: str, policy: TopologyPolicy = TopologyPolicy.NONE) -> None:
        self._clock = clock
        self._policy = policy
        # It only has to be arbitrary, and the same for the same seed.
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._lock = threading.Lock()
        self._resources: dict[str, _Resource] = {}
        self._retired: set[str] = set()
        self._held: dict[str, dict[str, Held]] = {}
        self._reusable: dict[str, Held] = {}

    # -- what plugins say --

    def connect(self, resource: str, endpoint: Endpoint) -> None:
        """A plugin registered; its devices come with the first ``update``."""
        with self._lock:
            known = self._resources.setdefault(resource, _Resource(endpoint))
            known.endpoint, known.stopped_at = endpoint, None

    def update(
        self, resource: str, endpoint: Endpoint, devices: Mapping[str, bool], numa_nodes: NumaNodes | None = None
    ) -> None:
        """Replace the list of devices of a resource: id, whether it is healthy, and where it is."""
        with self._lock:
            known = self._resources[resource]
            if known.endpoint is endpoint:
                known.healthy = {device for device, healthy in devices.items() if healthy}
                known.unhealthy = devices.keys() - known.healthy
                known.numa_nodes = numa_nodes or {}

    def disconnect(self, resource: str, endpoint: Endpoint) -> None:
        """A plugin is gone: its devices are unhealthy at once. Nothing when another has taken its place."""
        with self._lock:
            known = self._resources.get(resource)
            if known is not None and known.endpoint is endpoint:
                known.unhealthy |= known.healthy
                known.healthy = set()
                known.endpoint, known.stopped_at = None, self._clock()

    def restart(self) -> None:
        """What a new kubelet process knows from the checkpoint: names and allocations, no device."""
        with self._lock:
            self._resources = {name: _Resource(None, stopped_at=self._clock()) for name in self._resources}

    # -- what the Node's status and the PodResources API show --

    def counts(self) -> dict[str, Counts]:
        """Capacity and allocatable of every resource there ever was; one that nobody serves any more stays at 0."""
        with self._lock:
            expired = {
                name
                for name, known in self._resources.items()
                if known.stopped_at is not None and self._clock() - known.stopped_at >= STOP_GRACE_S
            }
            for name in expired:
                del self._resources[name]
            self._retired = (self._retired | expired) - self._resources.keys()
            shown = dict.fromkeys(self._retired, Counts(0, 0))
            for name, known in self._resources.items():
                shown[name] = Counts(len(known.healthy) + len(known.unhealthy), len(known.healthy))
            return shown

    def healthy(self) -> Held:
        """All healthy devices, held or not."""
        with self._lock:
            return {name: tuple(sorted(known.healthy)) for name, known in self._resources.items() if known.healthy}

    def numa_nodes(self) -> dict[str, frozenset[int]]:
        """Where the devices are of which a plugin says so."""
        with self._lock:
            return {device: nodes for known in self._resources.values() for device, nodes in known.numa_nodes.items()}

    def held(self, pod_uid: str) -> dict[str, Held]:
        """What the containers of a pod hold, by container name."""
        with self._lock:
            return {container: dict(devices) for container, devices in self._held.get(pod_uid, {}).items()}

    # -- allocation --

    def allocate(self, pod_uid: str, container: str, limits: Mapping[str, int], *, reusable: bool = False) -> None:
        """Give a container the devices its limits name, or raise AllocationError or AffinityError.

        The devices of an ordinary init container are ``reusable``: later containers of the pod take them first. A
        resource that no plugin ever registered is none of the device manager's business.
        """
        numa_node = self._numa_node(pod_uid, container, limits)
        for resource, needed in limits.items():
            self._allocate(pod_uid, container, resource, needed, numa_node)
        with self._lock:
            held = self._held.get(pod_uid, {}).get(container, {})
            pool = self._reusable.setdefault(pod_uid, {})
            for resource, devices in held.items():
                rest = [d for d in pool.get(resource, ()) if d not in devices]
                pool[resource] = (*rest, *devices) if reusable else tuple(rest)

    def release(self, pod_uid: str) -> None:
        """Take back everything a pod held."""
        with self._lock:
            self._held.pop(pod_uid, None)
            self._reusable.pop(pod_uid, None)

    def _numa_node(self, pod_uid: str, container: str, limits: Mapping[str, int]) -> int | None:
        if self._policy is TopologyPolicy.NONE:
            return None
        with self._lock:
            reusable = self._reusable.get(pod_uid, {})
            mine = self._held.get(pod_uid, {}).get(container, {})
            return single_numa_node(
                Request(
                    needed,
                    {device: known.numa_nodes.get(device, frozenset()) for device in known.healthy | known.unhealthy},
                    mine.get(resource) or known.healthy - self._in_use(resource),
                    () if resource in mine else reusable.get(resource, ()),
                )
                for resource, needed in limits.items()
                if (known := self._resources.get(resource)) is not None
            )

    def _allocate(self, pod_uid: str, container: str, resource: str, needed: int, numa_node: int | None) -> None:
        with self._lock:
            known = self._resources.get(resource)
            before = self._held.get(pod_uid, {}).get(container, {}).get(resource)
            in_use = self._in_use(resource)
            if known is None:
                if in_use:
                    raise AllocationError(f"cannot allocate unregistered device {resource}")
                return
            endpoint = known.endpoint
            if not known.healthy or endpoint is None:
                raise AllocationError(
                    f"no healthy devices present; cannot allocate unhealthy devices {resource}",
                )
            if before is not None:
                if not known.healthy.issuperset(before):
                    raise AllocationError(
                        f"previously allocated devices are no longer healthy; "
                        f"cannot allocate unhealthy devices {resource}"
                    )
                return
            if needed == 0:
                return
            reused = list(self._reusable.get(pod_uid, {}).get(resource, ()))[:needed]
            free = known.healthy - in_use
            if numa_node is not None and known.numa_nodes:
                free = {device for device in free if numa_node in known.numa_nodes.get(device, ())}
            available = sorted(free)
        missing = needed - len(reused)
        if len(available) < missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        chosen = reused
        if missing:
            self._random.shuffle(available)
            preferred = endpoint.preferred([*available, *reused], reused, needed)
            chosen = [*reused, *self._choose([*preferred, *available], available)[:missing]]
        endpoint.allocate(chosen)
        with self._lock:
            self._held.setdefault(pod_uid, {}).setdefault(container, {})[resource] = tuple(chosen)

    @staticmethod
    def _choose(wishes: Iterable[str], available: Iterable[str]) -> list[str]:
        allowed = set(available)
        return [device for device in dict.fromkeys(wishes) if device in allowed]

    def _in_use(self, resource: str) -> set[str]:
        return {
            device
            for containers in self._held.values()
            for devices in containers.values()
            for device in devices.get(resource, ())
        }
