"""What the cards that are still to be decided cost at least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import add

from mig_manager.planner.choices import Choice, Cost
from mig_manager.planner.prices import NOTHING, Part, prices

_UNIT = 720_720
"""One holder. It can be divided by every number up to 16, so that parts of holders are whole numbers."""


class Bound:
    """A lower bound for a sequence of cards, each with the choices it has, of which entry ``i`` gets ``required[i]``.

    Evicting a shared holder costs 1, on whichever of its cards it happens first. Shared out equally among the cards
    that are left and on which it can happen, it costs each of them at least its part, so every card can be looked at
    alone. Entries with a count pay for being taken (``prices``); what they pay is part of the bound.
    """

    def __init__(self, cards: Sequence[Sequence[Choice]], required: Mapping[int, int]) -> None:
        self._required = required
        self._cards = [
            tuple(dict.fromkeys((c.shared, c.cost, c.entry if c.entry in required else None) for c in choices))
            for choices in cards
        ]
        self._shared = [_union(shared for shared, _, _ in card) for card in self._cards]
        self.shared_from = [_union(self._shared[position:]) for position in range(len(cards) + 1)]
        self._memory: dict[tuple[int, int, int], Part] = {}

    @cached_property
    def _least(self) -> list[tuple[int, ...]]:
        """The sum of what the cards from each position on cost at least, holders aside."""
        sums: list[tuple[int, ...]] = [(0, 0, 0)]
        for card in reversed(self._cards):
            sums.append(tuple(map(add, sums[-1], min(cost[1:] for _, cost, _ in card))))
        return sums[::-1]

    @cached_property
    def _prices(self) -> dict[int | None, Part]:
        costs = []
        for card in self._cards:
            cheapest: dict[int | None, Part] = {}
            for shared, cost, entry in card:
                whole = self._whole(shared, cost, 0)
                cheapest[entry] = min(whole, cheapest.get(entry, whole))
            costs.append(cheapest)
        return prices(costs, self._required)

    def total(self, cost: Cost, used: Sequence[int], evicted: int, position: int) -> Cost:
        """At least what everything costs, if the cards before ``position`` cost that, and used and evicted those."""
        parts = [self._part(card, evicted & self._shared[card], position) for card in range(position, len(self._cards))]
        for (index, number), taken in zip(self._required.items(), used, strict=True):
            price = self._prices.get(index, NOTHING)
            parts.append(_times(price, number - taken))
        holders, *rest = (sum(part[i] for part in parts) for i in range(4))
        # The rest of the cheapest parts counts only where no costlier part can hide behind the rounding.
        least = self._least[position] if holders % _UNIT else rest
        return (cost[0] - (-holders // _UNIT), cost[1] + least[0], cost[2] + least[1], cost[3] + least[2])

    def _part(self, card: int, evicted: int, position: int) -> Part:
        """The cheapest choice of one card, counting parts of the holders that are not evicted yet."""
        key = (position, card, evicted)
        if key not in self._memory:
            self._memory[key] = min(
                _minus(self._whole(shared & ~evicted, cost, position), self._prices.get(entry, NOTHING))
                for shared, cost, entry in self._cards[card]
            )
        return self._memory[key]

    def _whole(self, holders: int, cost: Cost, position: int) -> Part:
        """The cost of a choice with its parts of the shared holders."""
        parts = cost[0] * _UNIT
        while holders:
            bit = holders & -holders
            parts += _UNIT // sum(1 for shared in self._shared[position:] if shared & bit)
            holders ^= bit
        return (parts, *cost[1:])


def _minus(cost: Part, price: Part) -> Part:
    return (cost[0] - price[0], cost[1] - price[1], cost[2] - price[2], cost[3] - price[3])


def _times(price: Part, number: int) -> Part:
    return (price[0] * number, price[1] * number, price[2] * number, price[3] * number)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
