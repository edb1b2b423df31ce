"""What handles stand for.

A front end hands out opaque handles; behind each is one of these keys. The generation tells an instance from a
former one with the same id, so a handle kept too long is recognised instead of meaning something else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """A physical card."""

    uuid: str


@dataclass(frozen=True, slots=True)
class GpuInstanceKey:
    """A GPU instance."""

    uuid: str
    gpu_instance: int
    generation: int


@dataclass(frozen=True, slots=True)
class ComputeInstanceKey:
    """A compute instance as such, for creating and destroying."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    generation: int


@dataclass(frozen=True, slots=True)
class MigDeviceKey:
    """A compute instance as a device that programs run on."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    generation: int


Key = DeviceKey | GpuInstanceKey | ComputeInstanceKey | MigDeviceKey
AnyDeviceKey = DeviceKey | MigDeviceKey
