"""What changes are made of: the calls that change a card, and the instances that a plan may destroy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, GpuInstance
from mig_manager.gpu.port import GpuError
from mig_manager.planner.target import CardTarget


class Action(StrEnum):
    """What can be done to a card; in the words of messages."""

    DESTROY_COMPUTE = "destroying compute instance"
    DESTROY_INSTANCE = "destroying GPU instance"
    CREATE_INSTANCE = "creating GPU instance"
    CREATE_COMPUTE = "creating compute instance"
    ENABLE = "enabling MIG on"
    DISABLE = "disabling MIG on"
    RESET = "resetting"
    REBOOT = "rebooting the node for"


@dataclass(frozen=True, slots=True)
class Event:
    """One call that changes a card: ``creating GPU instance 1g.10gb at 3 on GPU 1``."""

    action: Action
    gpu_uuid: str
    subject: str

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class UnplannedError(GpuError):
    """Something would go that nobody planned to destroy; it was not touched."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing, "it is not part of the plan, somebody else made it; plan again", 0)


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU instance, or with ``compute`` a compute instance in it, by place: what a plan may destroy."""

    gpu_uuid: str
    profile_id: int
    placement: Placement
    compute: Placement | None = None


def parts_of(targets: Iterable[CardTarget]) -> frozenset[Part]:
    """Every instance that the targets name."""
    return frozenset(
        Part(target.gpu_uuid, s.profile_id, s.placement, compute)
        for target in targets
        for s in target.slices
        for compute in (None, *s.compute)
    )


def parts_on(card: Card, instances: Iterable[GpuInstance]) -> frozenset[Part]:
    """Those instances of a card, with their compute instances."""
    return frozenset(
        Part(card.uuid, g.profile_id, g.placement, compute)
        for g in instances
        for compute in (None, *(c.placement for c in g.compute))
    )


def name_of(card: Card, profile_id: int, placement: Placement) -> str:
    """``1g.10gb at 3 on GPU 1``."""
    profile = card.table.get(profile_id) if card.table else None
    return f"{profile or f'of profile {profile_id}'} at {placement.start} on {card.label}"


def compute_name_of(card: Card, instance: GpuInstance, compute: Placement) -> str:
    """``1c at 2 of 3g.40gb at 4 on GPU 1``."""
    return f"{compute.size}c at {compute.start} of {name_of(card, instance.profile_id, instance.placement)}"
