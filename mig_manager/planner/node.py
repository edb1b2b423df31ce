"""The exact planner for a node: which entry each card takes, and the cheapest way to all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.state import Card, Holders
from mig_manager.planner.choices import Choice, choices
from mig_manager.planner.combine import CardWays, cheapest
from mig_manager.planner.entries import Entries
from mig_manager.planner.holding import CardHolding, evicted, number_holders
from mig_manager.planner.plan import CardPlan, Impact, Plan
from mig_manager.planner.strategy import Strategy, check_strategy
from mig_manager.planner.target import difference, target_of


def plan_node(cards: Sequence[Card], holders: Holders, layout: Layout, strategy: Strategy | None = None) -> Plan:
    """Plan ``layout`` for the cards of a node as they are, with ``holders`` on their slices.

    The plan evicts the fewest distinct holders, then destroys the fewest GPU instances, then the fewest compute
    instances, and leaves the most choices open. An infeasible layout yields a plan with a reason, on the node and on
    each card concerned, and without differences. ``strategy`` is the device plugin's, where it is to be considered.
    The machine is rebooted only where it goes no other way; then nothing on any card stays.
    """
    cards = sorted(cards, key=lambda c: c.index)
    entries = Entries(layout, cards)
    problems = entries.problems()
    if problems:
        return _infeasible(cards, problems)
    held = number_holders(cards, holders)
    chosen, reboot = _choose(cards, entries, held), False
    if chosen is None and any(card.mode_change is ModeChange.REBOOT for card in cards):
        chosen, reboot = _choose(_rebooted(cards), entries, held), True
    if chosen is None:
        return _infeasible(cards, {"": entries.count_problem()})
    plans = [_card_plan(card, choice, holders) for card, choice in zip(cards, chosen, strict=True)]
    reason = _strategy_problem(strategy, plans) if strategy else None
    if reason is not None:
        return _infeasible(cards, {"": reason})
    # A reboot ends whatever uses a card, also one that the layout does not concern.
    going = {h for who in holders.values() for h in who if not h.leaving} if reboot else set()
    leaving = tuple(sorted(going.union(*(plan.evict for plan in plans))))
    return Plan(tuple(plans), Impact.REBOOT_NODE if reboot else _impact(plans), leaving)


def _choose(cards: Sequence[Card], entries: Entries, held: dict[str, CardHolding]) -> list[Choice] | None:
    """The cheapest choices, in the order of the cards. One whose mode takes a reboot cannot change it here."""
    groups = _reset_groups(cards)
    chosen = cheapest([ways for group in groups for ways in _ways(group, entries, held)], entries.counted())
    if chosen is None:
        return None
    of = {id(card): choice for card, choice in zip((c for g in groups for c in g), chosen, strict=True)}
    return [of[id(card)] for card in cards]


def _rebooted(cards: Sequence[Card]) -> list[Card]:
    """The cards as a reboot sees them: it is a reset of all of them together."""
    return [
        replace(
            card,
            reset_group="node",
            mode_change=ModeChange.RESET if card.mode_change is ModeChange.REBOOT else card.mode_change,
        )
        for card in cards
    ]


def _reset_groups(cards: Sequence[Card]) -> list[list[Card]]:
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.reset_group or card.uuid, []).append(card)
    return list(groups.values())


def _ways(group: list[Card], entries: Entries, held: dict[str, CardHolding]) -> list[CardWays]:
    """What the cards of a reset group can do, each by itself."""
    resets = (False, True) if _may_need_reset(group, entries) else (False,)
    return [
        CardWays(
            {
                reset: [
                    choice
                    for index in entries.possible[card.uuid]
                    for choice in choices(card, index, entries, held[card.uuid], reset=reset)
                ]
                for reset in resets
            },
            begins=number == 0,
        )
        for number, card in enumerate(group)
    ]


def _may_need_reset(group: list[Card], entries: Entries) -> bool:
    """Whether some entry that a card of the group could take asks for a mode change that takes a reset."""
    return any(
        card.mode_change is ModeChange.RESET and entries.changes_mode(card, index)
        for card in group
        for index in entries.possible[card.uuid]
    )


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
