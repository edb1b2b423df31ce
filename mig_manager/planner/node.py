"""The exact planner for a node: which entry each card takes, and the cheapest way to all of it at once.

Cards cannot be planned one by one. A pod may hold slices of several cards and is evicted once; an entry with a count
may take any of the cards it matches; the cards of a reset group are reset together. So the choices of all cards are
combined by dynamic programming over (how often each counted entry was used, which shared holders go); among equal
states only the cheapest survives, which is exact because everything else about the past adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.state import Card, Holders
from mig_manager.planner.choices import NOTHING, Choice, Cost, choices
from mig_manager.planner.entries import Entries
from mig_manager.planner.holding import CardHolding, evicted, number_holders
from mig_manager.planner.plan import CardPlan, Impact, Plan
from mig_manager.planner.strategy import Strategy, check_strategy
from mig_manager.planner.target import difference, target_of

_State = tuple[tuple[int, ...], int]
"""How often each counted entry was used; the bit set of shared holders that go."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The cheapest way found to a state; ``before`` is the way to the previous card."""

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


def plan_node(cards: Sequence[Card], holders: Holders, layout: Layout, strategy: Strategy | None = None) -> Plan:
    """Plan ``layout`` for the cards of a node as they are, with ``holders`` on their slices.

    The plan evicts the fewest distinct holders, then destroys the fewest GPU instances, then the fewest compute
    instances, and leaves the most choices open. An infeasible layout yields a plan with a reason, on the node and on
    each card concerned, and without differences. ``strategy`` is the device plugin's, where it is to be considered.
    """
    cards = sorted(cards, key=lambda c: c.index)
    entries = Entries(layout, cards)
    problems = entries.problems()
    if problems:
        return _infeasible(cards, problems)
    groups = _reset_groups(cards)
    path = _cheapest(groups, entries, number_holders(cards, holders))
    if path is None:
        return _infeasible(cards, {"": entries.count_problem()})
    ordered = [card for group in groups for card in group]
    plans = [_card_plan(card, choice, holders) for card, choice in zip(ordered, path.choices(), strict=True)]
    plans.sort(key=lambda p: p.card.index)
    reason = _strategy_problem(strategy, plans) if strategy else None
    if reason is not None:
        return _infeasible(cards, {"": reason})
    leaving = tuple(sorted({holder for plan in plans for holder in plan.evict}))
    return Plan(tuple(plans), _impact(plans), leaving)


def _reset_groups(cards: Sequence[Card]) -> list[list[Card]]:
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.reset_group or card.uuid, []).append(card)
    return list(groups.values())


def _cheapest(groups: list[list[Card]], entries: Entries, held: dict[str, CardHolding]) -> _Path | None:
    """The cheapest way in which every counted entry gets its number of cards; ``None`` if there is none."""
    required = entries.counted()
    states: dict[_State, _Path] = {((0,) * len(required), 0): _Path(NOTHING)}
    for group in groups:
        after: dict[_State, _Path] = {}
        for reset in (False, True) if _may_need_reset(group, entries) else (False,):
            reached = states
            for card in group:
                possible = [
                    choice
                    for index in entries.possible[card.uuid]
                    for choice in choices(card, index, entries, held[card.uuid], reset=reset)
                ]
                reached = _step(reached, possible, required)
            _keep_cheapest(after, reached.items())
        states = after
    finished = [(shared, path) for (used, shared), path in states.items() if used == tuple(required.values())]
    return min(finished, key=lambda end: _total(*end), default=(0, None))[1]


def _may_need_reset(group: list[Card], entries: Entries) -> bool:
    """Whether some entry that a card of the group could take asks for a mode change that takes a reset."""
    return any(
        card.mode_change is ModeChange.RESET and entries.changes_mode(card, index)
        for card in group
        for index in entries.possible[card.uuid]
    )


def _step(states: dict[_State, _Path], possible: list[Choice], required: dict[int, int]) -> dict[_State, _Path]:
    """Extend every state by every choice of the next card."""
    after: dict[_State, _Path] = {}
    limits = list(required.items())
    for (used, shared), path in states.items():
        for choice in possible:
            now = tuple(n + (index == choice.entry) for n, (index, _) in zip(used, limits, strict=True))
            if any(n > limit for n, (_, limit) in zip(now, limits, strict=True)):
                continue
            p, c = path.cost, choice.cost
            cost = (p[0] + c[0], p[1] + c[1], p[2] + c[2], p[3] + c[3])
            _keep_cheapest(after, [((now, shared | choice.shared), _Path(cost, choice, path))])
    return after


def _keep_cheapest(states: dict[_State, _Path], found: Iterable[tuple[_State, _Path]]) -> None:
    for state, path in found:
        if state not in states or path.cost < states[state].cost:
            states[state] = path


def _total(shared: int, path: _Path) -> Cost:
    return (path.cost[0] + shared.bit_count(), *path.cost[1:])


def _card_plan(card: Card, choice: Choice, holders: Holders) -> CardPlan:
    if choice.target is None:
        return CardPlan(card, choice.entry)
    change = difference(card, choice.target, reset=choice.reset)
    wiped = choice.reset or not change.becomes_current
    return CardPlan(
        card, choice.entry, choice.target, change, choice.reset, evicted(card, change, holders, wiped=wiped)
    )


def _impact(plans: Sequence[CardPlan]) -> Impact:
    """Judged by effect: creating slices in free space hurts nobody."""
    if any(plan.evict for plan in plans):
        return Impact.EVICT_PODS
    disturbed = any(
        plan.reset
        or plan.difference.destroy
        or not plan.difference.becomes_current
        or any(kept.destroy_compute for kept in plan.difference.keep)
        for plan in plans
    )
    return Impact.FREE_SLICES if disturbed else Impact.NONE


def _strategy_problem(strategy: Strategy, plans: Sequence[CardPlan]) -> LayoutError | None:
    capable = [plan for plan in plans if plan.card.table is not None]
    return check_strategy(strategy, {plan.target or target_of(plan.card): plan.card.profiles for plan in capable})


def _infeasible(cards: Sequence[Card], problems: dict[str, LayoutError]) -> Plan:
    plans = tuple(CardPlan(card, reason=problems.get(card.uuid)) for card in cards)
    return Plan(plans, Impact.NONE, reason=next(iter(problems.values())))
