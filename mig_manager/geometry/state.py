"""What a machine's cards look like at one moment: mode, instances, and who uses them.

Read from NVML on a live machine, from a state file offline. Values only; nothing here refers to a handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.profiles import Placement, ProfileTable


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance; ``placement`` is in compute slices of its GPU instance, ``uuid`` is the MIG UUID."""

    id: int
    placement: Placement
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance and its compute instances. ``id`` is NVML's GPU instance id."""

    id: int
    profile_id: int
    placement: Placement
    compute: tuple[ComputeInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU.

    ``mig_current`` and ``mig_pending`` are ``None`` on a card without MIG; ``table`` is ``None`` there too, and
    where the profiles cannot be read. ``model`` is the product's name in the card tables, or NVML's where the
    tables do not know it; ``name`` is always NVML's. ``device_id`` is the device half of the PCI id,
    ``subsystem_id`` NVML's pciSubSystemId (device << 16 | vendor), 0 where unknown. Cards with the same non-empty
    ``reset_group`` are reset together.
    """

    index: int
    uuid: str
    model: str
    name: str
    device_id: int
    bus_id: str
    memory_mib: int
    mig_current: bool | None
    mig_pending: bool | None
    table: ProfileTable | None
    instances: tuple[GpuInstance, ...] = ()
    subsystem_id: int = 0
    minor: int | None = None
    mode_change: ModeChange | None = None
    mode_survives_reboot: bool = False
    reset_group: str = ""

    @property
    def mig_capable(self) -> bool:
        """Whether the card has MIG at all."""
        return self.mig_current is not None

    @property
    def profiles(self) -> ProfileTable:
        """The card's profile table, where it is known to exist: on a card whose slices are planned or read."""
        if self.table is None:
            raise ValueError(f"{self.label} has no profile table")
        return self.table

    @property
    def label(self) -> str:
        """How messages call the card."""
        return f"GPU {self.index}"


@dataclass(frozen=True, slots=True, order=True)
class SliceKey:
    """What can be held: a compute instance, a GPU instance as such, or (both ids ``None``) a whole card."""

    gpu_uuid: str
    gpu_instance: int | None = None
    compute_instance: int | None = None


NAMED = 3
"""So many holders, pods, workloads or texts are told in a message; the others are counted."""


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Somebody who uses a slice: a pod (``namespace/name``) or a process (``pid 4711 (python)``).

    A holder that is ``leaving`` (a pod already being deleted) still holds its slice, but destroying the slice
    evicts nobody, so it costs the planner nothing. ``hint`` is what a person can do about one that stays.
    """

    name: str
    leaving: bool = False
    hint: str = field(default="", compare=False)


def said(holders: Iterable[Holder]) -> str:
    """How messages name holders: those for whom the same helps together, at most three of them, and it once."""
    alike: dict[str, list[str]] = {}
    for holder in sorted(holders, key=lambda h: bool(h.hint)):
        alike.setdefault(holder.hint, []).append(holder.name)
    return "; ".join(f"{_counted(names)}; {hint}" if hint else _counted(names) for hint, names in alike.items())


def _counted(names: list[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


Holders = Mapping[SliceKey, frozenset[Holder]]
"""Who holds what. Slices that nobody holds are absent."""


def holders_of_card(holders: Holders, uuid: str) -> frozenset[Holder]:
    """Everybody who uses the card or any part of it."""
    return frozenset(h for key, who in holders.items() if key.gpu_uuid == uuid for h in who)


def holders_of_instance(holders: Holders, uuid: str, gpu_instance: int) -> frozenset[Holder]:
    """Everybody who uses the GPU instance or one of its compute instances."""
    return frozenset(
        h for key, who in holders.items() if key.gpu_uuid == uuid and key.gpu_instance == gpu_instance for h in who
    )
