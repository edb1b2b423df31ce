"""The laws of the planner, against a slow and obvious one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import gigabytes
from mig_manager.geometry.resolve import Wanted, resolve
from mig_manager.geometry.state import Card, Holder, Holders
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import Plan
from tests.planner.machines import (
    MODELS,
    cut_cards,
    held_slices,
    make_card,
    maximal_layouts,
    operations,
    perform,
    requests,
)
from tests.planner.oracle import Cost, cheapest, exists, filled

models = st.sampled_from(MODELS)
laws = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def cost(plan: Plan) -> Cost:
    """Pods evicted, GPU instances destroyed, compute instances of kept ones destroyed."""
    rebuilt = sum(len(k.destroy_compute) for c in plan.cards for k in c.difference.keep)
    return len(plan.evict), plan.destroyed, rebuilt


@st.composite
def situations(draw: st.DrawFn, *, most_cards: int = 2) -> tuple[list[Card], Holders, GpuEntry]:
    """Some cards of one model, pods on them, and a layout for all of them."""
    model = draw(models)
    cards = [draw(cut_cards(model, i)) for i in range(draw(st.integers(1, most_cards)))]
    return cards, draw(held_slices(cards)), GpuEntry(draw(requests(model)))


def wanted_on(card: Card, entry: GpuEntry) -> list[Wanted] | None:
    try:
        return filled(card.profiles, resolve(entry.slices, card.profiles, gigabytes(card.memory_mib)))
    except ValueError:
        return None


@laws
@given(situations())
def test_a_plan_costs_what_the_slow_planner_finds_and_exists_when_it_does(
    situation: tuple[list[Card], Holders, GpuEntry],
) -> None:
    """Evicted pods, then destroyed slices, then rebuilt compute instances are minimal; feasible means possible."""
    cards, holders, entry = situation
    plan = plan_node(cards, holders, Layout((entry,)))
    expected = cheapest(cards, holders, entry) if wanted_on(cards[0], entry) is not None else None
    assert expected == (cost(plan) if plan.feasible else None)


@laws
@given(situations())
def test_carrying_out_a_plan_gives_the_wanted_multiset(situation: tuple[list[Card], Holders, GpuEntry]) -> None:
    """Every operation is possible in the planned order, and what results is what was asked for, pins included."""
    cards, holders, entry = situation
    plan = plan_node(cards, holders, Layout((entry,)))
    if not plan.feasible:
        return
    for card in perform(cards, operations(plan)):
        wanted = wanted_on(card, entry)
        assert wanted is not None
        there = Counter(
            (g.profile_id, tuple(sorted((c.placement.size for c in g.compute), reverse=True))) for g in card.instances
        )
        assert Counter((w.profile_id, w.compute) for w in wanted) == there
        pins = Counter((w.profile_id, w.start) for w in wanted if w.start is not None)
        assert not pins - Counter((g.profile_id, g.placement.start) for g in card.instances)


@laws
@given(situations(), st.data())
def test_replanning_on_the_way_never_costs_more(
    situation: tuple[list[Card], Holders, GpuEntry], data: st.DataObject
) -> None:
    """After any prefix of what a plan does, what was lost and what will be is together no more than was planned.

    First the pods go, each from all its slices, then the slices: so before the first destruction any of the pods may
    be gone, afterwards all of them are.
    """
    cards, holders, entry = situation
    plan = plan_node(cards, holders, Layout((entry,)))
    if not plan.feasible:
        return
    todo = operations(plan)
    done = todo[: data.draw(st.integers(0, len(todo)))]
    gone = {holder for holder in plan.evict if data.draw(st.booleans()) or done}
    staying = {key: who - gone for key, who in holders.items() if who - gone}
    again = plan_node(perform(cards, done), staying, Layout((entry,)))
    destroyed = sum(what == "destroy gi" for what, _, _ in done)
    assert again.feasible
    assert (len(gone | set(again.evict)), destroyed + again.destroyed) <= cost(plan)[:2]


@laws
@given(situations(), st.data())
def test_pods_already_leaving_do_not_make_the_plan_flip(
    situation: tuple[list[Card], Holders, GpuEntry], data: st.DataObject
) -> None:
    """While some of the pods to be evicted are leaving, exactly the others remain to be evicted, and no new ones."""
    cards, holders, entry = situation
    plan = plan_node(cards, holders, Layout((entry,)))
    leaving = set(data.draw(st.lists(st.sampled_from(plan.evict)))) if plan.evict else set()
    later = {key: frozenset(replace(h, leaving=h.leaving or h in leaving) for h in who) for key, who in holders.items()}
    again = plan_node(cards, later, Layout((entry,)))
    assert (tuple(h for h in plan.evict if h not in leaving), plan.destroyed) == (again.evict, again.destroyed)


@laws
@given(situations(most_cards=1))
def test_a_busy_slice_that_fits_beside_the_rest_survives(situation: tuple[list[Card], Holders, GpuEntry]) -> None:
    """When the target could be had without touching any held slice, no pod is evicted."""
    cards, holders, entry = situation
    plan = plan_node(cards, holders, Layout((entry,)))
    expected = cheapest(cards, holders, entry) if plan.feasible else None
    if expected is not None and expected[0] == 0:
        held = {key.gpu_instance for key, who in holders.items() if any(not h.leaving for h in who)}
        destroyed = {g.id for g in plan.cards[0].difference.destroy}
        assert (set(), ()) == (held & destroyed, plan.evict)


@laws
@given(models, st.data())
def test_max_fills_what_is_left(model: str, data: st.DataObject) -> None:
    """With ``max``, one more instance of that profile would not fit however the others were placed."""
    card = make_card(model)
    fixed = data.draw(requests(model).filter(lambda r: all(x.count != "max" for x in r)))
    profile = data.draw(st.sampled_from(list(card.profiles)))
    plan = plan_node([card], {}, Layout((GpuEntry((*fixed, SliceRequest(profile.name, "max"))),)))
    base = wanted_on(card, GpuEntry(fixed))
    one = Wanted(profile.id, (profile.slice_count,))
    if base is None or not exists(card.profiles, [*base, one]):
        assert not plan.feasible
        return
    target = plan.cards[0].target
    assert target is not None
    number = len(target.slices) - len(base)
    assert (True, False) == (
        exists(card.profiles, [*base, *[one] * number]),
        exists(card.profiles, [*base, *[one] * (number + 1)]),
    )


@pytest.mark.parametrize(
    ("model", "profiles", "layouts", "multisets"),
    [
        ("A100-SXM4-80GB", [19, 14, 9, 5, 0], 19, 37),
        ("A100-SXM4-80GB", [19, 15, 14, 9, 5, 0], 78, 77),
        ("A30", [14, 5, 0], 5, 9),
        ("RTX-PRO-6000-Server", [14, 5, 0], 5, 9),
    ],
)
def test_exactly_the_feasible_multisets_are_accepted(
    model: str, profiles: list[int], layouts: int, multisets: int
) -> None:
    """All multisets up to one too many of everything: accepted if and only if some set of placements has them."""
    card = make_card(model)
    table = card.profiles
    found = maximal_layouts(table, profiles)
    assert layouts == len(found)
    possible = {frozenset(Counter(sub).items()) for full in found for sub in _submultisets([p for p, _ in full])}
    possible.discard(frozenset())
    accepted = set()
    for counts in _all_counts([table[p].instance_count + 1 for p in profiles]):
        asked = tuple(SliceRequest(table[p].name, n) for p, n in zip(profiles, counts, strict=True) if n)
        if asked and plan_node([card], {}, Layout((GpuEntry(asked),))).feasible:
            accepted.add(frozenset((p, n) for p, n in zip(profiles, counts, strict=True) if n))
    assert (multisets, possible) == (len(accepted), accepted)


def _submultisets(items: list[int]) -> list[tuple[int, ...]]:
    counts = Counter(items)
    found: list[tuple[int, ...]] = [()]
    for item, number in counts.items():
        found = [(*sub, *[item] * n) for sub in found for n in range(number + 1)]
    return found


def _all_counts(limits: list[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for limit in limits:
        found = [(*counts, n) for counts in found for n in range(limit + 1)]
    return found


def test_leaving_holders_cost_nothing_but_are_still_holders() -> None:
    """A holder that leaves is not evicted; the same pod staying elsewhere is."""
    card = make_card()
    assert Holder("a") != Holder("a", leaving=True)
    assert () == plan_node([card], {}, Layout((GpuEntry((SliceRequest(card.profiles[19].name),)),))).evict
