"""The slow and obvious planner: try everything. It shares no search with the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from mig_manager.geometry.layout import GpuEntry
from mig_manager.geometry.names import gigabytes
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.geometry.resolve import Wanted, WantedLayout, resolve
from mig_manager.geometry.state import Card, GpuInstance, Holder, Holders, SliceKey

Cost = tuple[int, int, int]
Outcome = tuple[frozenset[Holder], int, int]


def fits(table: ProfileTable, wanted: Sequence[Wanted], occupied: int = 0) -> bool:
    """Whether the instances can be placed one after the other, trying every start of every one."""
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    return any(
        fits(table, rest, occupied | at.mask)
        for at in table[first.profile_id].placements
        if not at.mask & occupied and first.start in (None, at.start)
    )


def exists(table: ProfileTable, wanted: Sequence[Wanted]) -> bool:
    """Whether the multiset can exist at all: room, one OFA, and nothing but ``-me`` beside a ``+me.all``."""
    profiles = [table[w.profile_id] for w in wanted]
    everything = sum(p.attributes == "+me.all" for p in profiles)
    media = sum(p.attributes == "+me" for p in profiles)
    if everything and any(p.attributes not in ("+me.all", "-me") for p in profiles):
        return False
    return everything + media <= 1 and fits(table, wanted)


def filled(table: ProfileTable, layout: WantedLayout) -> list[Wanted] | None:
    """The multiset with the fill replaced by as many as can be; ``None`` if it cannot be."""
    if layout.fill is None:
        return list(layout.slices) if exists(table, layout.slices) else None
    for number in range(table.units, 0, -1):
        wanted = [*layout.slices, *[layout.fill] * number]
        if exists(table, wanted):
            return wanted
    return None


def cheapest(cards: Sequence[Card], holders: Holders, entry: GpuEntry) -> Cost | None:
    """The least cost of giving every card (MIG on) that entry: pods evicted, GPU and compute instances destroyed."""
    outcomes = []
    for card in cards:
        wanted = filled(card.profiles, resolve(entry.slices, card.profiles, gigabytes(card.memory_mib)))
        if wanted is None:
            return None
        outcomes.append(set(card_outcomes(card, holders, wanted)))
    return min(total(combination) for combination in product(*outcomes))


def total(combination: Sequence[Outcome]) -> Cost:
    """Distinct pods over all cards; the rest adds up."""
    gone = frozenset[Holder]().union(*(o[0] for o in combination))
    return len(gone), sum(o[1] for o in combination), sum(o[2] for o in combination)


def card_outcomes(card: Card, holders: Holders, wanted: Sequence[Wanted]) -> Iterator[Outcome]:
    """Every way for one card: each subset of instances to keep, each kept as each kind that it can be."""
    for number in range(len(card.instances) + 1):
        for kept in combinations(card.instances, number):
            occupied = sum(g.placement.mask for g in kept)
            gone = frozenset(h for g in card.instances if g not in kept for h in _of_instance(card, g, holders))
            for left, evicted, rebuilt in _assignments(card, kept, Counter(wanted), holders):
                if fits(card.profiles, list(left.elements()), occupied):
                    yield gone | evicted, len(card.instances) - number, rebuilt


def _assignments(
    card: Card, kept: Sequence[GpuInstance], left: Counter[Wanted], holders: Holders
) -> Iterator[tuple[Counter[Wanted], frozenset[Holder], int]]:
    if not kept:
        yield left, frozenset(), 0
        return
    first, rest = kept[0], kept[1:]
    for kind in [k for k, n in left.items() if n and k.profile_id == first.profile_id]:
        if kind.start not in (None, first.placement.start):
            continue
        for evicted, rebuilt in _recomputed(card, first, kind, holders):
            fewer = left.copy()
            fewer[kind] -= 1
            for others, more, lost in _assignments(card, rest, fewer, holders):
                yield others, evicted | more, rebuilt + lost


def _recomputed(
    card: Card, instance: GpuInstance, kind: Wanted, holders: Holders
) -> Iterator[tuple[frozenset[Holder], int]]:
    """Each subset of compute instances that can stay when the others make room."""
    for number in range(len(instance.compute) + 1):
        for kept in combinations(instance.compute, number):
            missing = Counter(kind.compute)
            missing.subtract(Counter(c.placement.size for c in kept))
            if min(missing.values(), default=0) < 0:
                continue
            occupied = sum(c.placement.mask for c in kept)
            if _compute_fits(card, instance, list(missing.elements()), occupied):
                lost = [c for c in instance.compute if c not in kept]
                keys = [SliceKey(card.uuid, instance.id, c.id) for c in lost]
                yield _staying(holders, keys), len(lost)


def _compute_fits(card: Card, instance: GpuInstance, widths: list[int], occupied: int) -> bool:
    if not widths:
        return True
    profile = card.profiles[instance.profile_id].compute_of_width(widths[0])
    return profile is not None and any(
        _compute_fits(card, instance, widths[1:], occupied | at.mask)
        for at in profile.placements
        if not at.mask & occupied
    )


def _of_instance(card: Card, instance: GpuInstance, holders: Holders) -> frozenset[Holder]:
    return _staying(holders, [SliceKey(card.uuid, instance.id, c.id) for c in instance.compute])


def _staying(holders: Holders, keys: Sequence[SliceKey]) -> frozenset[Holder]:
    return frozenset(h for key in keys for h in holders.get(key, ()) if not h.leaving)
