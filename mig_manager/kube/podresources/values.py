"""The kubelet's answers as values."""

from __future__ import annotations

from dataclasses import dataclass

REPLICA_SEPARATOR = "::"


@dataclass(frozen=True, slots=True, order=True)
class Devices:
    """Device ids of one resource, as the device plugin registered them (``MIG-<uuid>``, ``GPU-<uuid>::1``)."""

    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What a container holds; a resource may appear more than once (once per NUMA node)."""

    name: str
    devices: tuple[Devices, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDevices:
    """What a pod holds. The kubelet gives neither UID nor phase, and leaves ordinary init containers out."""

    namespace: str
    name: str
    containers: tuple[ContainerDevices, ...] = ()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def devices(self) -> tuple[Devices, ...]:
        """What all its containers hold."""
        return tuple(d for c in self.containers for d in c.devices)


def physical_id(device_id: str) -> str:
    """The device that an id stands for: a time-sliced replica is called ``<id>::<n>`` (NVIDIA's k8s-device-plugin)."""
    return device_id.partition(REPLICA_SEPARATOR)[0]
