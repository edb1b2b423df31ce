"""The exact search on one card: which instances to keep, so that the layout fits and the least is lost.

Cost, in this order: distinct holders that must go, GPU instances destroyed, compute instances destroyed, then the
placement that keeps most later choices open. The holders of a card can also hold slices of other cards, so a card
offers several *options*: for each set of such shared holders the cheapest one. ``planner.combine`` combines them.

Holders are small integers here (bits of a mask), so that equal situations on different cards and nodes are the same
question and are answered from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.resolve import Wanted, place_compute
from mig_manager.planner.placement import Counts, arrange, counts_of, feasible
from mig_manager.planner.target import TargetSlice


@dataclass(frozen=True, slots=True)
class HeldCompute:
    """A compute instance as the search sees it: where it is, and the bit set of its holders that would be evicted."""

    placement: Placement
    holders: int = 0


@dataclass(frozen=True, slots=True)
class HeldInstance:
    """A GPU instance as the search sees it; ``holders`` covers its compute instances too."""

    profile_id: int
    placement: Placement
    compute: tuple[HeldCompute, ...]
    holders: int = 0


@dataclass(frozen=True, slots=True)
class ComputeOption:
    """One way to give a kept GPU instance its compute instances. ``evicted`` is a bit set of holders."""

    evicted: int
    destroyed: int
    placements: tuple[Placement, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """What options with the same shared holders are compared by."""
        return (self.evicted.bit_count(), self.destroyed)


@dataclass(frozen=True, slots=True)
class Option:
    """One way to get a card to its layout. ``evicted`` is a bit set of holders."""

    evicted: int
    destroyed: int
    rebuilt: int
    openness: int
    slices: tuple[TargetSlice, ...]

    @property
    def rank(self) -> tuple[int, int, int, int, tuple[TargetSlice, ...]]:
        """What options with the same shared holders are compared by; the last part only makes ties definite."""
        return (self.evicted.bit_count(), self.destroyed, self.rebuilt, -self.openness, self.slices)


@lru_cache(maxsize=50_000)
def card_options(
    table: ProfileTable, instances: tuple[HeldInstance, ...], wanted: tuple[Wanted, ...], shared: int
) -> tuple[Option, ...]:
    """All options worth considering; empty when the wanted instances do not fit on the card at all.

    ``wanted`` is a feasible or infeasible multiset in any order; ``shared`` is the bit set of holders that also hold
    slices elsewhere. Whichever of those go for another card's sake, one of the options is the best.
    """
    if not feasible_with_pins(table, wanted):
        return ()
    search = _Search(table, instances, wanted, shared)
    search.run(0, 0, (), 0, 0)
    return _undominated([search.best[key] for key in sorted(search.best)], shared)


def _undominated(options: list[Option], shared: int) -> tuple[Option, ...]:
    """Without the options that are never better than another one, by the reasoning of ``_Search._hopeless``."""
    costs = [
        (o.evicted & shared, ((o.evicted & ~shared).bit_count(), o.destroyed, o.rebuilt, -o.openness)) for o in options
    ]
    kept: list[int] = []
    for number in sorted(range(len(options)), key=lambda n: costs[n][1]):
        evicted, cost = costs[number]
        others = (costs[n] for n in kept)
        if not any((c[0] + (gone & ~evicted).bit_count(), *c[1:]) <= cost for gone, c in others):
            kept.append(number)
    return tuple(options[number] for number in sorted(kept))


def feasible_with_pins(table: ProfileTable, wanted: tuple[Wanted, ...]) -> bool:
    """Whether the multiset, pins included, fits on the empty card."""
    if not feasible(table, counts_of(table, (w.profile_id for w in wanted))):
        return False
    return _arrange_around(table, 0, Counter(wanted)) is not None


class _Search:
    """Depth first over the instances: keep each as one of the wanted kinds, or destroy it."""

    def __init__(
        self, table: ProfileTable, instances: tuple[HeldInstance, ...], wanted: tuple[Wanted, ...], shared: int
    ) -> None:
        self.table = table
        # Held instances first: keeping them is what matters most, so good options are found early.
        self.instances = sorted(instances, key=lambda i: (-i.holders.bit_count(), i.placement))
        self.elsewhere = [
            instance.holders & (shared | _union(i.holders for i in self.instances if i is not instance))
            for instance in self.instances
        ]
        self.left = Counter(wanted)
        self.shared = shared
        self.best: dict[int, Option] = {}

    def run(self, index: int, occupied: int, kept: tuple[TargetSlice, ...], evicted: int, rebuilt: int) -> None:
        if self._hopeless(evicted, index - len(kept), rebuilt):
            return
        if index == len(self.instances):
            self._finish(occupied, kept, evicted, rebuilt)
            return
        instance = self.instances[index]
        for kind in [k for k, n in self.left.items() if n and _keepable(instance, k)]:
            self.left[kind] -= 1
            around = occupied | instance.placement.mask
            for inside in compute_options(self.table, instance, kind.compute, self.elsewhere[index]):
                stays = TargetSlice(instance.placement, instance.profile_id, inside.placements)
                self.run(index + 1, around, (*kept, stays), evicted | inside.evicted, rebuilt + inside.destroyed)
            self.left[kind] += 1
        self.run(index + 1, occupied, kept, evicted | instance.holders, rebuilt)

    def _hopeless(self, evicted: int, destroyed: int, rebuilt: int) -> bool:
        """Whether everything below is worse than an option found already, whatever happens on other cards.

        Shared holders may have to go for another card's sake anyway, so those that go here are no cost for certain;
        but those that only the option evicts can make it dearer by at most their number.
        """
        cost = ((evicted & ~self.shared).bit_count(), destroyed, rebuilt)
        return any(
            ((best.evicted & ~self.shared).bit_count() + (key & ~evicted).bit_count(), best.destroyed, best.rebuilt)
            < cost
            for key, best in self.best.items()
        )

    def _finish(self, occupied: int, kept: tuple[TargetSlice, ...], evicted: int, rebuilt: int) -> None:
        created = _arrange_around(self.table, occupied, self.left)
        if created is None:
            return
        slices, openness = created
        option = Option(evicted, len(self.instances) - len(kept), rebuilt, openness, tuple(sorted((*kept, *slices))))
        key = evicted & self.shared
        if key not in self.best or option.rank < self.best[key].rank:
            self.best[key] = option


def _keepable(instance: HeldInstance, kind: Wanted) -> bool:
    return kind.profile_id == instance.profile_id and kind.start in (None, instance.placement.start)


def _arrange_around(
    table: ProfileTable, occupied: int, wanted: Counter[Wanted]
) -> tuple[list[TargetSlice], int] | None:
    """Place what is still wanted around what is kept: pins first, the rest where it is best."""
    pinned: list[TargetSlice] = []
    free: list[Wanted] = []
    for kind, number in wanted.items():
        if kind.start is None:
            free.extend([kind] * number)
            continue
        placement = table[kind.profile_id].placement_at(kind.start)
        for _ in range(number):
            if placement is None or placement.mask & occupied:
                return None
            occupied |= placement.mask
            pinned.append(_created(table, kind, placement))
    counts: Counts = counts_of(table, (w.profile_id for w in free))
    arrangement = arrange(table, occupied, counts)
    if arrangement is None:
        return None
    created = pinned
    for (profile_id, _), starts in zip(counts, arrangement.starts, strict=True):
        kinds = sorted((w for w in free if w.profile_id == profile_id), key=lambda w: w.compute)
        size = table[profile_id].size
        created += [_created(table, kind, Placement(s, size)) for kind, s in zip(kinds, starts, strict=True)]
    return created, arrangement.openness


def _created(table: ProfileTable, kind: Wanted, placement: Placement) -> TargetSlice:
    compute = place_compute(table[kind.profile_id].compute, kind.compute)
    if compute is None:  # geometry.resolve refuses such a layout
        raise AssertionError(f"compute instances {kind.compute} do not fit into profile {kind.profile_id}")
    return TargetSlice(placement, kind.profile_id, tuple(sorted(compute)))


@lru_cache(maxsize=20_000)
def compute_options(
    table: ProfileTable, instance: HeldInstance, widths: tuple[int, ...], elsewhere: int
) -> tuple[ComputeOption, ...]:
    """Ways to give a kept GPU instance compute instances of these widths, every subset of the present ones tried.

    ``elsewhere`` is the bit set of holders that hold slices outside this instance too, on this card or another: for
    each set of those that must go the cheapest way is there.
    """
    best: dict[int, ComputeOption] = {}
    for subset in range(1 << len(instance.compute)):
        kept = [c for i, c in enumerate(instance.compute) if subset >> i & 1]
        gone = [c for i, c in enumerate(instance.compute) if not subset >> i & 1]
        missing = Counter(widths)
        missing.subtract(c.placement.size for c in kept)
        if any(n < 0 for n in missing.values()):
            continue
        occupied = _union(c.placement.mask for c in kept)
        created = place_compute(
            table[instance.profile_id].compute, tuple(sorted(missing.elements(), reverse=True)), occupied
        )
        if created is None:
            continue
        placements = tuple(sorted((*(c.placement for c in kept), *created)))
        option = ComputeOption(_union(c.holders for c in gone), len(gone), placements)
        key = option.evicted & elsewhere
        if key not in best or option.rank < best[key].rank:
            best[key] = option
    return tuple(best.values())


def _union(bit_sets: Iterable[int]) -> int:
    return reduce(or_, bit_sets, 0)
