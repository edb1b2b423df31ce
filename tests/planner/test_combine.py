"""Combining the choices of many cards: exact whatever is pruned, and pruned enough for crowded nodes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.geometry.layout import GpuEntry, Layout
from mig_manager.geometry.state import Holder, Holders, SliceKey
from mig_manager.planner import combine
from mig_manager.planner.bound import Bound
from mig_manager.planner.choices import Choice, Cost
from mig_manager.planner.combine import CardWays, cheapest
from mig_manager.planner.node import plan_node
from tests.planner.machines import entry, hold, layout, make_card, with_slices

COSTS = st.tuples(*[st.integers(0, 2)] * 3, st.integers(-2, 0))


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[CardWays], dict[int, int]]:
    """Up to five cards in groups, with holders shared at random, and up to two counted entries."""
    choices = st.lists(
        st.builds(Choice, st.sampled_from([None, 0, 1]), shared=st.integers(0, 63), cost=COSTS), min_size=1, max_size=4
    )
    cards: list[CardWays] = []
    for number in range(draw(st.integers(1, 5))):
        begins = number == 0 or draw(st.booleans())
        flags = draw(st.sampled_from([(False,), (False, True)])) if begins else tuple(cards[-1].ways)
        cards.append(CardWays({flag: draw(choices) for flag in flags}, begins))
    return cards, draw(st.dictionaries(st.sampled_from([0, 1]), st.integers(1, 3)))


def cost_of(choices: tuple[Choice, ...]) -> Cost:
    """Private costs add up, shared holders count once."""
    evicted = 0
    for choice in choices:
        evicted |= choice.shared
    sums = [sum(part) for part in zip(*(choice.cost for choice in choices), strict=True)]
    return sums[0] + evicted.bit_count(), sums[1], sums[2], sums[3]


def by_brute_force(cards: list[CardWays], required: dict[int, int]) -> Cost | None:
    """Try everything."""
    costs = []
    for flags in product(*(card.ways for card in cards)):
        if any(not card.begins and flags[n] is not flags[n - 1] for n, card in enumerate(cards)):
            continue
        for choices in product(*(card.ways[flag] for card, flag in zip(cards, flags, strict=True))):
            used = Counter(choice.entry for choice in choices)
            if all(used[index] == number for index, number in required.items()):
                costs.append(cost_of(choices))
    return min(costs, default=None)


@pytest.mark.parametrize("beam", [1, 2, 64])
@settings(max_examples=100, deadline=None)
@given(crowd=crowds())
def test_the_cheapest_choices_are_found_however_little_the_first_run_looks_at(
    beam: int, crowd: tuple[list[CardWays], dict[int, int]]
) -> None:
    """The width of the first run decides how long it takes, never what is found."""
    cards, required = crowd
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "_WIDTHS", (beam, None))
        found = cheapest(cards, required)

    assert by_brute_force(cards, required) == (cost_of(tuple(found)) if found else None)


@settings(max_examples=100, deadline=None)
@given(crowd=crowds())
def test_a_bound_is_never_above_what_is_found(crowd: tuple[list[CardWays], dict[int, int]]) -> None:
    """What the bound says before the first card is at most the cheapest whole."""
    cards, required = crowd
    bound = Bound([[choice for choices in card.ways.values() for choice in choices] for card in cards], required)
    best = by_brute_force(cards, required)

    assert best is None or bound.total((0, 0, 0, 0), (0,) * len(required), 0, 0) <= best


@settings(max_examples=100, deadline=None)
@given(crowd=crowds())
def test_without_shared_holders_and_resets_the_bound_is_exact(crowd: tuple[list[CardWays], dict[int, int]]) -> None:
    """Prices for counted entries leave no gap: what the bound says can be had."""
    cards, required = crowd
    cards = [CardWays({False: [replace(c, shared=0) for c in card.ways[False]]}, begins=True) for card in cards]
    bound = Bound([card.ways[False] for card in cards], required)
    best = by_brute_force(cards, required)

    assert best is None or bound.total((0, 0, 0, 0), (0,) * len(required), 0, 0) == best


CARDS = [with_slices(make_card(index=n), *[f"1g.10gb@{start}" for start in range(7)]) for n in range(16)]


def pods_on_two_slices() -> Holders:
    """Every slice of every card is used, and every pod uses two of them anywhere."""
    slots = [(card, str(start)) for card in CARDS for start in range(7)]
    random.Random(1).shuffle(slots)  # noqa: S311 - nothing is secret here
    holders: Holders = {}
    for number, (card, start) in enumerate(slots):
        holders = {**holders, **hold(card, **{f"pod{number // 2}": start})}
    return holders


@pytest.mark.parametrize(
    ("holders", "wish"),
    [
        (pods_on_two_slices(), layout("2g", "1g*max")),
        (pods_on_two_slices(), layout("3g", "1g*max")),
        ({}, Layout(tuple(entry(f"{1 + n % 4}g*max", count=1) for n in range(16)))),
    ],
)
def test_a_node_of_16_cards_is_planned_without_trying_everything(
    holders: Holders, wish: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that share cards and entries that compete for them: thousands of states are looked at, not billions."""
    looked_at = 0
    total = Bound.total

    def counting(self: Bound, cost: Cost, used: Sequence[int], evicted: int, position: int) -> Cost:
        nonlocal looked_at
        looked_at += 1
        return total(self, cost, used, evicted, position)

    monkeypatch.setattr(Bound, "total", counting)
    plan = plan_node(CARDS, holders, wish)

    assert plan.feasible
    assert looked_at < 20_000


def test_a_pod_in_several_parts_of_a_card_goes_before_two_pods_do() -> None:
    """Which compute instance goes is decided together with what goes elsewhere on the card."""
    card = with_slices(make_card(), "2g.20gb@0", "3g.40gb@4/1c,1c,1c")
    holders: Holders = {
        **hold(card, a="0"),
        **{SliceKey(card.uuid, 1, number): frozenset({Holder(pod)}) for number, pod in enumerate("abc")},
    }
    split = Layout((GpuEntry((replace(entry("3g").slices[0], compute=(1, 1)),)),))

    plan = plan_node([card], holders, split)

    assert ["a"] == [holder.name for holder in plan.evict]
