"""A target says exactly what shall lie where on one card; the difference says what that takes from here.

The search (``planner.search``) chooses targets. From then on nothing is searched any more: applying, finishing what a
crash interrupted, and rolling back all follow from the difference between a fresh read of the card and a target.
"""

from __future__ import annotations

from dataclasses import dataclass

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance


@dataclass(frozen=True, slots=True, order=True)
class TargetSlice:
    """A GPU instance that shall exist at ``placement``, with compute instances at ``compute`` (compute slices)."""

    placement: Placement
    profile_id: int
    compute: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class CardTarget:
    """What one card shall look like: MIG mode and every slice, in order of placement."""

    gpu_uuid: str
    mig: bool
    slices: tuple[TargetSlice, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSlice:
    """A GPU instance that stays, and what changes inside it."""

    instance: GpuInstance
    compute: tuple[Placement, ...]
    destroy_compute: tuple[ComputeInstance, ...] = ()
    create_compute: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """What it takes to bring one card to its target.

    ``set_mode`` is the mode to ask for, ``None`` when the pending mode is right already. ``becomes_current`` is false
    when a reset or reboot still lies between the pending mode and the target.
    """

    keep: tuple[KeptSlice, ...] = ()
    destroy: tuple[GpuInstance, ...] = ()
    create: tuple[TargetSlice, ...] = ()
    set_mode: bool | None = None
    becomes_current: bool = True

    @property
    def empty(self) -> bool:
        """Whether the card is at its target already."""
        return not (
            self.destroy
            or self.create
            or self.set_mode is not None
            or not self.becomes_current
            or any(k.destroy_compute or k.create_compute for k in self.keep)
        )


UNCHANGED = Difference()


def target_of(card: Card) -> CardTarget:
    """The target that describes the card as it is now."""
    slices = sorted(
        TargetSlice(g.placement, g.profile_id, tuple(sorted(c.placement for c in g.compute))) for g in card.instances
    )
    return CardTarget(card.uuid, bool(card.mig_current), tuple(slices))


def difference(card: Card, target: CardTarget, *, reset: bool = False) -> Difference:
    """What is to be kept, destroyed and created on ``card`` as it is now.

    An instance stays if the target has the same profile at the same place. When the current mode is not the wanted
    one, or the card is to be reset, nothing stays: instances survive neither a change of mode nor a reset.
    """
    mode_changes = card.mig_current is not target.mig
    set_mode = target.mig if card.mig_pending is not target.mig else None
    if mode_changes or reset:
        return Difference(
            destroy=card.instances,
            create=target.slices if target.mig else (),
            set_mode=set_mode,
            becomes_current=not mode_changes,
        )
    wanted = {(s.profile_id, s.placement): s for s in target.slices}
    keep, destroy = [], []
    for instance in card.instances:
        found = wanted.pop((instance.profile_id, instance.placement), None)
        if found is None:
            destroy.append(instance)
            continue
        there = {c.placement for c in instance.compute}
        keep.append(
            KeptSlice(
                instance,
                found.compute,
                tuple(c for c in instance.compute if c.placement not in found.compute),
                tuple(p for p in found.compute if p not in there),
            )
        )
    return Difference(tuple(keep), tuple(destroy), tuple(sorted(wanted.values())), set_mode)
