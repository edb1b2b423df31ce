"""The layout language as values: which cards, which slices.

Parsing from YAML is ``mig_manager.api``'s work and resolving on a card ``geometry.resolve``'s; this module only says
what there is to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mig_manager.geometry.names import SliceName


class MigMode(StrEnum):
    """What an entry wants of a card's MIG mode; ``Unmanaged`` leaves the card as it is."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"
    UNMANAGED = "Unmanaged"


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A PCI device id, optionally of one board: ``subsystem`` is NVML's pciSubSystemId."""

    device: int
    vendor: int = 0x10DE
    subsystem: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Which cards an entry is for. Every filled field must hold; a field holds if one of its values does.

    ``compute_slices`` is how many compute slices the whole card has (7 on most, 4 on A30 and RTX PRO 6000): by it
    one layout can serve cards of several kinds, also such as no release knows yet.
    """

    models: tuple[str, ...] = ()
    device_ids: tuple[DeviceId, ...] = ()
    bus_ids: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    memory_mib: int | None = None
    compute_slices: int | None = None


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """``count`` slices of one kind. ``compute`` holds the widths of the compute instances; ``None`` means one full one.

    ``double_memory`` chooses the 1g profile with twice the memory. ``start`` pins a single slice.
    A name with a compute part (``1c.3g``) counts compute instances, which share GPU instances as far as they fit.
    """

    slice: SliceName
    count: int | Literal["max"] = 1
    start: int | None = None
    compute: tuple[int, ...] | None = None
    double_memory: bool = False


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """One entry of a layout; the first entry that matches a card wins.

    ``count`` limits the entry to that many of the cards it matches; the planner chooses the cheapest.
    """

    slices: tuple[SliceRequest, ...] = ()
    match: Match | None = None
    count: int | None = None
    mig: MigMode = MigMode.ENABLED


@dataclass(frozen=True, slots=True)
class Layout:
    """What a node's cards shall look like. ``name`` is for messages."""

    gpus: tuple[GpuEntry, ...]
    name: str = ""
