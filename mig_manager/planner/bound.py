"""What the cards that are still to be decided cost at least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add

from mig_manager.planner.choices import Choice, Cost

_UNIT = 720_720
"""One holder. It can be divided by every number up to 16, so that parts of holders are whole numbers."""

_Part = tuple[int, int, int, int]
"""A cost in which holders are counted in parts of ``_UNIT``."""


class Bound:
    """A lower bound for a sequence of cards, each with the choices it has.

    Evicting a shared holder costs 1, on whichever of its cards it happens first. Shared out equally among the cards
    that are left and on which it can happen, it costs each of them at least its part, so every card can be looked at
    alone.
    """

    def __init__(self, cards: Sequence[Sequence[Choice]]) -> None:
        self._cards = [tuple(dict.fromkeys((choice.shared, choice.cost) for choice in choices)) for choices in cards]
        self._shared = [_union(shared for shared, _ in card) for card in self._cards]
        self.shared_from = [_union(self._shared[position:]) for position in range(len(cards) + 1)]
        self._least = _sums_from([min(cost[1:] for _, cost in card) for card in self._cards])
        self._memory: dict[tuple[int, int, int], _Part] = {}

    def total(self, cost: Cost, evicted: int, position: int) -> Cost:
        """At least what everything costs, if the cards before ``position`` cost that and evicted those holders."""
        parts = [self._part(card, evicted & self._shared[card], position) for card in range(position, len(self._cards))]
        holders = sum(part[0] for part in parts)
        # The rest of the cheapest parts counts only where no costlier part can hide behind the rounding.
        rest = self._least[position] if holders % _UNIT else tuple(sum(part[i] for part in parts) for i in (1, 2, 3))
        return (cost[0] - (-holders // _UNIT), cost[1] + rest[0], cost[2] + rest[1], cost[3] + rest[2])

    def _part(self, card: int, evicted: int, position: int) -> _Part:
        """The cheapest choice of one card, counting parts of the holders that are not evicted yet."""
        key = (position, card, evicted)
        if key not in self._memory:
            self._memory[key] = min(
                (cost[0] * _UNIT + self._parts(shared & ~evicted, position), *cost[1:])
                for shared, cost in self._cards[card]
            )
        return self._memory[key]

    def _parts(self, holders: int, position: int) -> int:
        parts = 0
        while holders:
            bit = holders & -holders
            parts += _UNIT // sum(1 for shared in self._shared[position:] if shared & bit)
            holders ^= bit
        return parts


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _sums_from(costs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The sum of the costs from each position to the end."""
    sums: list[tuple[int, ...]] = [(0, 0, 0)]
    for cost in reversed(costs):
        sums.append(tuple(map(add, sums[-1], cost)))
    return sums[::-1]
