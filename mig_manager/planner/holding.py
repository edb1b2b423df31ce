"""Holders as the search counts them: numbered per card, the ones with slices on several cards marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mig_manager.geometry.state import Card, Holder, Holders, SliceKey
from mig_manager.planner.search import HeldCompute, HeldInstance
from mig_manager.planner.target import Difference

# Shared holders use the bits from here on, so that private ones are numbered alike on every card. Slices that are
# shared in time can have more holders than this; then the shared ones begin after the most that a card has.
_FIRST_SHARED_BIT = 64


@dataclass(frozen=True, slots=True)
class CardHolding:
    """Who holds what of one card, as bit sets; ``everybody`` includes those who use the card as a whole.

    Holders that are already leaving are not in any of them: destroying their slice evicts nobody.
    """

    instances: tuple[HeldInstance, ...]
    everybody: int
    shared: int


def number_holders(cards: Sequence[Card], holders: Holders) -> dict[str, CardHolding]:
    """Number the holders of every card; the result is by card UUID.

    Private holders get the same small numbers on every card, in order of placement, so that cards in the same
    situation look the same to the search.
    """
    cards_of: dict[Holder, set[str]] = {}
    by_card: dict[str, dict[tuple[int | None, int | None], list[Holder]]] = {}
    for key, who in holders.items():
        staying = sorted(h for h in who if not h.leaving)
        by_card.setdefault(key.gpu_uuid, {})[key.gpu_instance, key.compute_instance] = staying
        for holder in staying:
            cards_of.setdefault(holder, set()).add(key.gpu_uuid)
    shared = sorted(h for h, where in cards_of.items() if len(where) > 1)
    first = max([_FIRST_SHARED_BIT, *(sum(map(len, held.values())) for held in by_card.values())])
    bits = {holder: 1 << (first + i) for i, holder in enumerate(shared)}
    return {card.uuid: _number_card(card, by_card.get(card.uuid, {}), bits) for card in cards}


def _number_card(
    card: Card, held: dict[tuple[int | None, int | None], list[Holder]], shared_bits: dict[Holder, int]
) -> CardHolding:
    private: dict[Holder, int] = {}

    def bits(gpu_instance: int | None, compute_instance: int | None = None) -> int:
        mask = 0
        for holder in held.get((gpu_instance, compute_instance), ()):
            mask |= shared_bits.get(holder) or private.setdefault(holder, 1 << len(private))
        return mask

    instances, everybody = [], 0
    for instance in sorted(card.instances, key=lambda i: i.placement):
        compute = tuple(
            HeldCompute(c.placement, bits(instance.id, c.id))
            for c in sorted(instance.compute, key=lambda c: c.placement)
        )
        mask = bits(instance.id)
        for c in compute:
            mask |= c.holders
        everybody |= mask
        instances.append(HeldInstance(instance.profile_id, instance.placement, compute, mask))
    everybody |= bits(None)
    shared = 0
    for bit in shared_bits.values():
        shared |= everybody & bit
    return CardHolding(tuple(instances), everybody, shared)


def evicted(card: Card, change: Difference, holders: Holders, *, wiped: bool) -> tuple[Holder, ...]:
    """Who must go for ``change``: holders of what is destroyed, or of anything on a card that is ``wiped``.

    Those already leaving are left out.
    """
    gone = {(i.id, None) for i in change.destroy} | {(i.id, c.id) for i in change.destroy for c in i.compute}
    gone |= {(k.instance.id, c.id) for k in change.keep for c in k.destroy_compute}

    def must_go(key: SliceKey) -> bool:
        return key.gpu_uuid == card.uuid and (wiped or (key.gpu_instance, key.compute_instance) in gone)

    return tuple(sorted({h for key, who in holders.items() if must_go(key) for h in who if not h.leaving}))
