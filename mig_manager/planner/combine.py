"""The cheapest choices for all cards of a node at once.

Cards cannot be planned one by one. A holder may use slices of several cards and is evicted once; an entry with a count
may take any of the cards it matches; the cards of a reset group are reset together. So the cards are gone through one
after the other, and what the past means for the rest is a *state*: how often each counted entry was used, which of the
holders that later cards share are evicted already, and whether the present group is reset.

Choosing the holders to evict is a hitting set problem, so there can be exponentially many states. Three things keep
them few without giving up exactness: a holder is forgotten after its last card; a state is dropped when another one is
never worse, whatever comes; and a run that looks at the most promising states only gives an upper bound, by which the
next drops every state that a lower bound of what is still to come (``bound``) shows to be no better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mig_manager.planner.bound import Bound
from mig_manager.planner.choices import NOTHING, Choice, Cost

_WIDTHS = (64, 1024, None)
"""States per card in each run. Nearly all nodes need fewer than the first allows, and then it is exact already."""

_COMPARED = 64
"""With how many better states one is compared; dropping fewer than possible costs time, never the optimum."""

_State = tuple[tuple[int, ...], int, bool]
"""How often each counted entry was used; the bit set of evicted holders that later cards share; group is reset."""


@dataclass(frozen=True, slots=True)
class CardWays:
    """What one card can do, by whether its reset group is reset; ``begins`` says that it is the first of the group."""

    ways: Mapping[bool, Sequence[Choice]]
    begins: bool


@dataclass(frozen=True, slots=True)
class _Path:
    """The cheapest way found to a state; its cost counts every evicted holder once."""

    cost: Cost
    choice: Choice | None = None
    before: _Path | None = None

    def choices(self) -> list[Choice]:
        """The choices in the order of the cards."""
        found: list[Choice] = []
        path: _Path | None = self
        while path is not None and path.choice is not None:
            found.append(path.choice)
            path = path.before
        return found[::-1]


def cheapest(cards: Sequence[CardWays], required: Mapping[int, int]) -> list[Choice] | None:
    """The cheapest choices in which entry ``i`` takes ``required[i]`` cards; ``None`` if there are none."""
    search = _Search(cards, required)
    best: _Path | None = None
    for width in _WIDTHS:
        best = search.run(best.cost if best else None, width) or best
        if search.complete:
            break
    return best.choices() if best else None


class _Search:
    """``complete`` says whether the last run looked at everything that could be best."""

    def __init__(self, cards: Sequence[CardWays], required: Mapping[int, int]) -> None:
        self.cards = cards
        self.limits = tuple(required.items())
        self.places: dict[int | None, int] = {entry: place for place, entry in enumerate(required)}
        self.bound = Bound(
            [[choice for choices in card.ways.values() for choice in choices] for card in cards], required
        )
        self.able = self._able()
        self.complete = True

    def _able(self) -> list[tuple[int, ...]]:
        """How many cards from each position on could take each counted entry."""
        able = [(0,) * len(self.limits)]
        for card in reversed(self.cards):
            entries = {choice.entry for choices in card.ways.values() for choice in choices}
            able.append(tuple(n + (entry in entries) for n, (entry, _) in zip(able[-1], self.limits, strict=True)))
        return able[::-1]

    def run(self, worst: Cost | None, width: int | None) -> _Path | None:
        """The cheapest path that costs less than ``worst``, among the ``width`` best states after each card."""
        self.complete = True
        states: dict[_State, _Path] = {((0,) * len(self.limits), 0, False): _Path(NOTHING)}
        for position, card in enumerate(self.cards):
            states = self._promising(self._step(states, card, position), position + 1, worst, width)
        return min(states.values(), key=lambda path: path.cost, default=None)

    def _step(self, states: dict[_State, _Path], card: CardWays, position: int) -> dict[_State, _Path]:
        """Extend every state by every choice of the next card."""
        after: dict[_State, _Path] = {}
        later = self.bound.shared_from[position + 1]
        for (used, evicted, reset), path in states.items():
            for flag in card.ways if card.begins else (reset,):
                for choice in card.ways[flag]:
                    now = self._count(used, choice.entry, position + 1)
                    if now is None:
                        continue
                    private, *rest = choice.cost
                    p = path.cost
                    cost = (
                        p[0] + private + (choice.shared & ~evicted).bit_count(),
                        p[1] + rest[0],
                        p[2] + rest[1],
                        p[3] + rest[2],
                    )
                    state = (now, (evicted | choice.shared) & later, flag)
                    if state not in after or cost < after[state].cost:
                        after[state] = _Path(cost, choice, path)
        return after

    def _count(self, used: tuple[int, ...], entry: int | None, position: int) -> tuple[int, ...] | None:
        """``used`` with one more of that entry; ``None`` if that is too many, or too few cards are left for another."""
        if not self.limits:
            return used
        now = used
        if entry in self.places:
            place = self.places[entry]
            now = (*used[:place], used[place] + 1, *used[place + 1 :])
        short = 0
        for n, (_, limit), able in zip(now, self.limits, self.able[position], strict=True):
            if not n <= limit <= n + able:
                return None
            short += limit - n
        return now if short <= len(self.cards) - position else None

    def _promising(
        self, states: dict[_State, _Path], position: int, worst: Cost | None, width: int | None
    ) -> dict[_State, _Path]:
        """Drop what cannot be better than ``worst`` or than another state, and all but the best ``width``."""
        if len(states) == 1 and worst is None:
            return states
        if width is not None and len(states) <= width:
            return _undominated(states) if self.bound.shared_from[position] else states
        bounds = {state: self.bound.total(path.cost, state[0], state[1], position) for state, path in states.items()}
        best = _undominated({s: path for s, path in states.items() if worst is None or bounds[s] < worst})
        if width is None or len(best) <= width:
            return best
        self.complete = False
        return {state: best[state] for state in sorted(best, key=bounds.__getitem__)[:width]}


def _undominated(states: dict[_State, _Path]) -> dict[_State, _Path]:
    """Without states that are never better than another one.

    Whatever comes, the other one evicts at most those in addition that only the first has evicted already.
    """
    kept: dict[_State, _Path] = {}
    better: dict[tuple[tuple[int, ...], bool], list[tuple[int, Cost]]] = {}
    for state, path in sorted(states.items(), key=lambda item: item[1].cost):
        used, evicted, reset = state
        others = better.setdefault((used, reset), [])
        if any((cost[0] + (evicted & ~gone).bit_count(), *cost[1:]) <= path.cost for gone, cost in others):
            continue
        if len(others) < _COMPARED:
            others.append((evicted, path.cost))
        kept[state] = path
    return kept
