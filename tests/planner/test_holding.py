"""Holders as bits: no two of them are one, and nobody is counted who is not there."""

from __future__ import annotations

from collections.abc import Iterable

from mig_manager.geometry.state import Card, Holder, SliceKey
from mig_manager.planner.holding import CardHolding, number_holders
from mig_manager.planner.search import HeldCompute, HeldInstance
from tests.planner.machines import make_card, with_slices

CARDS = tuple(with_slices(make_card(index=i), "3g@0", "3g@4") for i in range(3))


def named(prefix: str, count: int) -> list[Holder]:
    """So many holders; a slice that is shared in time may have any number of them."""
    return [Holder(f"ns/{prefix}-{i}") for i in range(count)]


def key(card: Card, instance: int) -> SliceKey:
    """A compute instance of the card."""
    return SliceKey(card.uuid, instance, 0)


def counts(holders: dict[SliceKey, Iterable[Holder]]) -> list[tuple[int, int]]:
    """For each card, how many holders it has and how many of them hold something elsewhere."""
    found = number_holders(CARDS, {k: frozenset(who) for k, who in holders.items()})
    return [(found[card.uuid].everybody.bit_count(), found[card.uuid].shared.bit_count()) for card in CARDS]


def test_nobody_is_nobody() -> None:
    """A card that nobody uses costs nobody anything, whatever becomes of it."""
    assert [(0, 0)] * 3 == counts({})


def test_each_holder_counts_where_it_holds_something() -> None:
    """A compute instance, a GPU instance as a whole, the card as a whole; somebody who holds another card as well."""
    cards = [with_slices(make_card(), "3g@0/1c,2c", "2g@4"), with_slices(make_card(index=1), "3g@4")]
    first, second = cards[0].instances
    compute, whole, card, both, gone = (Holder(f"ns/{n}", leaving=n == "gone") for n in ("a", "b", "c", "d", "gone"))
    holders = {
        SliceKey("GPU-0", first.id, 0): frozenset({compute, gone}),
        SliceKey("GPU-0", first.id): frozenset({whole}),
        SliceKey("GPU-0"): frozenset({card}),
        SliceKey("GPU-0", second.id, 0): frozenset({both}),
        SliceKey("GPU-1", 0, 0): frozenset({both}),
    }
    a, b, c, d = 1, 2, 4, 1 << 64
    inside = tuple(HeldCompute(i.placement, a if i.id == 0 else 0) for i in first.compute)
    other = cards[1].instances[0]
    expected = {
        "GPU-0": CardHolding(
            (
                HeldInstance(first.profile_id, first.placement, inside, a | b),
                HeldInstance(second.profile_id, second.placement, (HeldCompute(second.compute[0].placement, d),), d),
            ),
            a | b | c | d,
            d,
        ),
        "GPU-1": CardHolding(
            (HeldInstance(other.profile_id, other.placement, (HeldCompute(other.compute[0].placement, d),), d),), d, d
        ),
    }
    assert expected == number_holders(cards, holders)


def test_many_holders_of_several_cards() -> None:
    """They are told apart from each other and from those who hold one card only, however many they are."""
    left, right, own = named("left", 40), named("right", 40), named("own", 3)
    holders: dict[SliceKey, Iterable[Holder]] = {
        key(CARDS[0], 0): left,
        key(CARDS[0], 1): own,
        key(CARDS[1], 0): left,
        key(CARDS[1], 1): right,
        key(CARDS[2], 0): right,
    }
    assert [(43, 40), (80, 80), (40, 40)] == counts(holders)


def test_many_holders_of_one_card() -> None:
    """They are not taken for those who hold several other cards."""
    both = named("both", 1)
    holders: dict[SliceKey, Iterable[Holder]] = {
        key(CARDS[0], 0): named("own", 64),
        key(CARDS[1], 0): both,
        key(CARDS[2], 0): both,
    }
    assert [(64, 0), (1, 1), (1, 1)] == counts(holders)
