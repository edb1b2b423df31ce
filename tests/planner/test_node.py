"""A whole node: entries and counts, pods on several cards, MIG off, reset groups, strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, Match, MigMode
from mig_manager.geometry.names import gigabytes
from mig_manager.geometry.resolve import resolve
from mig_manager.geometry.state import Card, Holder, Holders, SliceKey
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import Impact, Plan
from mig_manager.planner.strategy import Strategy
from tests.planner.machines import (
    cut_cards,
    entry,
    held_slices,
    hold,
    layout,
    make_card,
    operations,
    perform,
    with_slices,
)
from tests.planner.oracle import Cost, card_outcomes, filled, total

SEVEN = tuple(f"1g@{i}" for i in range(7))


def starts(plan: Plan, card: int = 0) -> list[str]:
    """The planned slices of a card as ``profile@start``."""
    planned = plan.cards[card]
    assert planned.target is not None
    return [f"{planned.card.profiles[s.profile_id]}@{s.placement.start}" for s in planned.target.slices]


def test_nothing_to_do_is_an_empty_plan() -> None:
    """A card that has what is asked for, anywhere, is left alone."""
    card = with_slices(make_card(), "3g@4", "2g@0", "1g@2", "1g@3")
    plan = plan_node([card], hold(card, p="0 4"), layout("1g*2", "2g", "3g"))
    assert (True, False, Impact.NONE, 0) == (plan.feasible, plan.changes, plan.impact, plan.destroyed)


def test_creating_in_free_space_has_no_impact() -> None:
    """Impact is judged by effect."""
    card = with_slices(make_card(), "3g@4")
    plan = plan_node([card], hold(card, p="4"), layout("3g", "2g", "1g*2"))
    assert (True, Impact.NONE, ["2g.20gb@0", "1g.10gb@2", "1g.10gb@3", "3g.40gb@4"]) == (
        plan.changes,
        plan.impact,
        starts(plan),
    )


def test_free_slices_go_before_busy_ones() -> None:
    """Two 1g of seven are busy; the balanced layout is built around both."""
    card = with_slices(make_card(), *SEVEN)
    plan = plan_node([card], hold(card, p="2", q="3"), layout("1g*2", "2g", "3g"))
    assert (Impact.FREE_SLICES, (), True) == (plan.impact, plan.evict, {"1g.10gb@2", "1g.10gb@3"} <= set(starts(plan)))


def test_a_pod_is_evicted_where_nothing_else_fits() -> None:
    """4g needs units 0 to 3, so whoever is there goes, and nobody else."""
    card = with_slices(make_card(), *SEVEN)
    plan = plan_node([card], hold(card, p="1", q="5"), layout("4g", "1g*3"))
    assert (Impact.EVICT_PODS, (Holder("p"),)) == (plan.impact, plan.evict)


def test_one_pod_on_two_slices_costs_less_than_two_pods() -> None:
    """Distinct pods are counted: p's two slices go rather than the slices of q and r."""
    card = with_slices(make_card(), "1g@0", "1g@1", "2g@2", "1g@4", "1g@5", "1g@6")
    crowded = plan_node([card], hold(card, p="4 5 6", q="0", r="2"), layout("3g@4", "2g", "1g*2"))
    assert (Holder("p"),) == crowded.evict


def test_a_pod_across_cards_is_evicted_once() -> None:
    """Either card alone would rather evict its own pod; together the one pod that both share is cheapest."""
    cards = [with_slices(make_card(index=i), "3g@0", "3g@4") for i in (0, 1)]
    holders: dict[SliceKey, frozenset[Holder]] = {}
    for card in cards:
        holders |= hold(card, shared="0") | hold(card, **{f"own{card.index}": "4"})
    plan = plan_node(cards, holders, layout("3g", "1g*2"))
    assert (Holder("shared"),) == plan.evict


def test_a_slice_shared_by_a_crowd_does_not_blur_who_holds_what() -> None:
    """More holders on one card than usual are still told from those that hold slices of other cards too."""
    card = with_slices(make_card(), "1g@0", "1g@2", "1g@3", "1g@4", "1g@5")
    other = with_slices(make_card(index=1), "1g@0")
    crowd = {f"crowd{number}": "0" for number in range(64)}
    holders = hold(card, **crowd, p="2", q="2", s="3", t="3", x="4", y="4", z="5") | hold(other, s="0", t="0")
    plan = plan_node([card, other], holders, Layout((entry("1g*3", "2g", match=Match(indices=(0,))),)))
    assert (Holder("x"), Holder("y"), Holder("z")) == plan.evict


def test_the_first_matching_entry_wins() -> None:
    """Later entries take what earlier ones leave; a card that none matches stays untouched."""
    cards = [make_card(index=0), make_card("A30", 1), make_card("H100-SXM5-80GB", 2)]
    wish = Layout(
        (entry("7g", match=Match(indices=(0,))), entry("1g*max", match=Match(models=("A100-SXM4-80GB", "A30"))))
    )
    plan = plan_node(cards, {}, wish)
    assert (["7g.80gb@0"], 4, None) == (starts(plan), len(starts(plan, 1)), plan.cards[2].target)
    assert [0, 1, None] == [c.entry for c in plan.cards]


def test_count_takes_the_cheapest_cards() -> None:
    """Two of three cards are wanted whole; the one with pods on it keeps its slices."""
    cards = [with_slices(make_card(index=i), *SEVEN) for i in range(3)]
    wish = Layout((entry("7g", count=2), entry("1g*7")))
    plan = plan_node(cards, hold(cards[0], p="0") | hold(cards[1]) | hold(cards[2]), wish)
    assert ([1, 0, 0], Impact.FREE_SLICES) == ([c.entry for c in plan.cards], plan.impact)


def test_count_skips_cards_that_cannot() -> None:
    """An entry without match takes the cards that have the profile."""
    cards = [make_card("A30", 0), make_card(index=1), make_card(index=2)]
    plan = plan_node(cards, {}, Layout((entry("3g*2", count=2), entry("1g*max"))))
    assert [1, 0, 0] == [c.entry for c in plan.cards]


def test_count_without_enough_cards_names_the_ones_there_are() -> None:
    """The reason says how many can and which."""
    cards = [make_card("A30", 0), make_card(index=1)]
    plan = plan_node(cards, {}, Layout((entry("3g*2", count=2), entry("1g*max"))))
    expected = "gpus[0].count: 2 cards are wanted and 1 can take it (GPU 1); lower count or widen match"
    assert (False, expected) == (plan.feasible, str(plan.reason))


def test_counts_that_compete_for_cards_are_refused() -> None:
    """Each could have its number alone, together there are too few cards."""
    cards = [make_card(index=i) for i in range(2)]
    plan = plan_node(cards, {}, Layout((entry("7g", count=2), entry("3g*2", count=1), entry("1g"))))
    assert "gpus: no choice of cards gives each entry its count: 2 by gpus[0] + 1 by gpus[1]" in str(plan.reason)


def test_an_entry_for_other_nodes_cards_is_no_error() -> None:
    """One layout serves nodes of several kinds; a counted entry that matches nothing here asks for nothing."""
    wish = Layout((entry("7g", count=2, match=Match(models=("H200",))), entry("1g*max")))
    assert plan_node([make_card()], {}, wish).feasible


@pytest.mark.parametrize(
    ("wish", "reason", "words"),
    [
        (Layout((entry("1g", match=Match(models=("H200",))),)), "NoGPUMatched", "it has 2 × A100-SXM4-80GB, 1 × T4"),
        (
            Layout((entry("1g", match=Match(indices=(0, 7))),)),
            "IndexOutOfRange",
            "there is no GPU 7; this node has GPU 0, 1, 2",
        ),
        (Layout((entry("1g", match=Match(indices=(2,))),)), "ProfileNotOnGPU", "GPU 2 (T4) has no MIG"),
        (Layout((entry("1g.5gb"),)), "ProfileNotOnGPU", "GPU 0 (A100-SXM4-80GB): this card has no profile 1g.5gb"),
        (layout("3g*3"), "LayoutDoesNotFit", "3 × 3g.40gb asked for, the card has at most 2; it fits with 2 × 3g.40gb"),
        (layout("3g*2", "1g"), "LayoutDoesNotFit", "2 × 3g.40gb + 1 × 1g.10gb need 9 of 8 memory units"),
        (
            layout("4g", "2g*2"),
            "LayoutDoesNotFit",
            "free units 6, 7 leave no start for 2g.20gb beside 1 × 4g.40gb + 1 × 2g",
        ),
        (
            layout("1g@1", "1g@5", "3g"),
            "LayoutDoesNotFit",
            "free units 0 | 2, 3, 4 | 6, 7 leave no start for 3g.40gb beside",
        ),
        (layout("3g@0", "4g@0"), "LayoutDoesNotFit", "4g.40gb pinned at 0 overlaps 3g.40gb pinned at 0"),
        (layout("7g", "1g*max"), "LayoutDoesNotFit", "1 × 7g.80gb + 1 × 1g.10gb need 9 of 8 memory units"),
        (layout("3g@2"), "InvalidPlacement", "3g.40gb cannot start at 2; it can start at 0, 4"),
    ],
)
def test_every_infeasible_answer_carries_a_reason_to_act_on(wish: Layout, reason: str, words: str) -> None:
    """One word for machines, one line for people; nothing is planned."""
    plan = plan_node([make_card(index=0), make_card(index=1), make_card("T4", 2)], {}, wish)
    assert (False, Impact.NONE, False) == (plan.feasible, plan.impact, plan.changes)
    assert plan.reason is not None
    assert (reason, True) == (plan.reason.reason, words in str(plan.reason)), str(plan.reason)


def test_media_engines_are_counted() -> None:
    """One OFA; and +me.all takes every decoder."""
    a30 = plan_node([make_card("A30")], {}, layout("1g+me", "2g+me"))
    rtx = plan_node([make_card("RTX-PRO-6000-Server")], {}, layout("1g+me.all", "1g"))
    good = plan_node([make_card("RTX-PRO-6000-Server")], {}, layout("1g+me.all", "1g-me*3"))
    assert "need more media engines" in str(a30.reason)
    assert "need more media engines" in str(rtx.reason)
    assert good.feasible


def test_a_card_whose_profiles_nobody_published_is_planned_live_only() -> None:
    """The reason says what to do instead."""
    card = replace(make_card("RTX-PRO-5000-48GB"), memory_mib=49152)
    assert "plan on the live card" in str(plan_node([card], {}, layout("1g")).reason)


def test_cards_without_mig_are_left_alone_by_entries_for_all() -> None:
    """A T4 beside an A30 keeps its pods; MIG off on it is nothing to do."""
    cards = [make_card("A30", 0), make_card("T4", 1)]
    holders = {SliceKey("GPU-1"): frozenset({Holder("p")})}
    plan = plan_node(cards, holders, layout("2g*2"))
    off = plan_node(
        cards, holders, Layout((GpuEntry(match=Match(models=("T4",)), mig=MigMode.DISABLED), entry("2g*2")))
    )
    assert (None, ()) == (plan.cards[1].target, plan.evict)
    assert (True, None, ()) == (off.feasible, off.cards[1].target, off.evict)


def test_enabling_mig_evicts_who_uses_the_whole_card() -> None:
    """With MIG off the card is one slice; Hopper changes at once, without a reset."""
    card = make_card("H100-SXM5-80GB", mig=False)
    idle = plan_node([card], {}, layout("1g*7"))
    busy = plan_node([card], {SliceKey(card.uuid): frozenset({Holder("p")})}, layout("1g*7"))
    assert (Impact.FREE_SLICES, Impact.EVICT_PODS, (Holder("p"),)) == (idle.impact, busy.impact, busy.evict)
    assert (False, True, 7) == (busy.cards[0].reset, busy.cards[0].difference.set_mode, len(starts(busy)))


def test_disabling_mig_destroys_everything_on_the_card() -> None:
    """Instances first; who holds them goes, who merely watches the card too."""
    card = with_slices(make_card("H100-SXM5-80GB"), "3g@0", "3g@4")
    watcher = {SliceKey(card.uuid): frozenset({Holder("pid 7 (dcgm)")})}
    plan = plan_node([card], hold(card, p="0") | watcher, Layout((GpuEntry(mig=MigMode.DISABLED),)))
    assert (2, (Holder("p"), Holder("pid 7 (dcgm)"))) == (plan.destroyed, plan.evict)
    assert () == perform([card], operations(plan))[0].instances


def test_a_pending_mode_is_taken_back_without_a_reset() -> None:
    """Somebody asked for MIG off and it is only pending: asking for on again costs nothing."""
    card = replace(with_slices(make_card(), "7g@0"), mig_pending=False)
    plan = plan_node([card], hold(card, p="0"), layout("7g"))
    assert (Impact.NONE, True, False) == (plan.impact, plan.cards[0].difference.set_mode, plan.cards[0].reset)


def test_a_reset_takes_the_whole_group_into_account() -> None:
    """On an NVSwitch board one Ampere card's mode change resets all: their pods go, their slices are rebuilt."""
    group = [
        make_card(index=0, mig=False, group="board"),
        with_slices(make_card(index=1, group="board"), "3g@4", "1g@0"),
    ]
    wish = Layout((entry("7g", match=Match(indices=(0,))), entry("3g", "1g", match=Match(indices=(1,)))))
    plan = plan_node(group, hold(group[1], p="4", q="0"), wish)
    assert (Impact.EVICT_PODS, (Holder("p"), Holder("q")), 2) == (
        plan.impact,
        plan.evict,
        len(plan.cards[1].difference.destroy),
    )
    assert [True, True] == [c.reset for c in plan.cards]
    after = perform(group, operations(plan))
    assert [["7g.80gb"], ["1g.10gb", "3g.40gb"]] == [
        sorted(str(c.profiles[g.profile_id]) for g in c.instances) for c in after
    ]


def test_a_card_of_the_group_that_no_entry_claims_is_rebuilt_as_it_was() -> None:
    """Its slices come back at the same places; nothing else would leave it as it was."""
    group = [
        make_card(index=0, mig=False, group="board"),
        with_slices(make_card(index=1, group="board"), "2g@2", "1g@6"),
    ]
    plan = plan_node(group, {}, Layout((entry("7g", match=Match(indices=(0,))),)))
    assert (["2g.20gb@2", "1g.10gb@6"], None) == (starts(plan, 1), plan.cards[1].entry)


def test_a_count_avoids_the_group_that_would_be_reset() -> None:
    """Either board could give the card; the one that has MIG on already needs no reset."""
    cards = [make_card(index=i, mig=i >= 2, group=f"board{i // 2}") for i in range(4)]
    plan = plan_node(cards, {}, Layout((entry("7g", count=1), GpuEntry(mig=MigMode.UNMANAGED))))
    assert ([1, 1, 0, 1], [False] * 4) == ([c.entry for c in plan.cards], [c.reset for c in plan.cards])


def stuck(card: Card) -> Card:
    """A card whose reset was refused: its mode changes by a reboot only."""
    return replace(card, mode_change=ModeChange.REBOOT)


def test_a_reboot_resets_every_card_and_ends_every_user() -> None:
    """Where a mode goes no other way nothing on the machine stays, and what is to stay is built anew."""
    cards = [
        stuck(make_card(index=0, mig=False)),
        with_slices(make_card("H100-SXM5-80GB", index=1), "3g@4", "1g@0"),
        make_card("T4", index=2),
    ]
    holders = hold(cards[1], p="4") | {SliceKey(cards[2].uuid): frozenset({Holder("q"), Holder("r", leaving=True)})}
    plan = plan_node(cards, holders, Layout((entry("7g", match=Match(indices=(0,))),)))
    assert (Impact.REBOOT_NODE, (Holder("p"), Holder("q"))) == (plan.impact, plan.evict)
    assert [True, True, False] == [c.reset for c in plan.cards]
    assert [["7g.80gb@0"], ["1g.10gb@0", "3g.40gb@4"]] == [starts(plan, i) for i in range(2)]
    assert plan.cards[2].target is None
    assert cards == [c.card for c in plan.cards]


def test_a_machine_is_not_rebooted_for_what_goes_without() -> None:
    """A card that needs no change of mode, a count that another card can fill, a board that can be reset."""
    asleep, awake = stuck(make_card(index=0, mig=False)), make_card(index=1)
    for wish in (
        Layout((entry("7g", match=Match(indices=(1,))),)),
        Layout((entry("7g", count=1), GpuEntry(mig=MigMode.UNMANAGED))),
        Layout((GpuEntry(match=Match(indices=(0,)), mig=MigMode.DISABLED), entry("7g"))),
    ):
        plan = plan_node([asleep, awake], {}, wish)
        assert (True, Impact.NONE) == (plan.feasible, plan.impact)
    board = [asleep, make_card(index=1, mig=False, group="board"), make_card(index=2, group="board")]
    plan = plan_node(board, {}, Layout((entry("7g", match=Match(indices=(1,))),)))
    assert (Impact.FREE_SLICES, [False, True, True]) == (plan.impact, [c.reset for c in plan.cards])


def test_a_reset_of_the_board_does_not_change_a_mode_that_takes_a_reboot() -> None:
    """The board is reset for another card; the mode of the stuck one still takes a reboot of everything."""
    board = [
        stuck(make_card(index=0, mig=False, group="board")),
        make_card(index=1, mig=False, group="board"),
        make_card(index=2),
    ]
    plan = plan_node(board, {}, layout("7g"))
    assert (Impact.REBOOT_NODE, [True] * 3) == (plan.impact, [c.reset for c in plan.cards])


def test_not_even_a_reboot_makes_counts_fit() -> None:
    """What cannot be on any of the cards is refused as ever."""
    card = stuck(make_card(mig=False))
    plan = plan_node([card], {}, Layout((entry("7g", count=1), entry("3g", count=1))))
    assert plan.reason is not None
    assert not plan.changes


def test_a_refused_plan_changes_nothing() -> None:
    """Whoever refuses a plan gets one without differences, with the reason."""
    plan = plan_node([make_card()], {}, layout("7g"))
    reason = LayoutError("RebootRequired", "no", "yes")
    refused = plan.refused(reason)
    assert (True, False, False) == (plan.changes, refused.changes, refused.feasible)
    assert (reason, Impact.NONE) == (refused.reason, refused.impact)


def test_compute_instances_change_inside_a_kept_gpu_instance() -> None:
    """The busy 1c stays, the GPU instance stays, only a free compute instance is rebuilt."""
    card = with_slices(make_card(), "3g@0/1c,1c,1c")
    holders = {SliceKey(card.uuid, 0, 0): frozenset({Holder("p")})}
    split = Layout((GpuEntry((replace(entry("3g").slices[0], compute=(1, 1)),)),))
    plan = plan_node([card], holders, split)
    change = plan.cards[0].difference
    assert (Impact.FREE_SLICES, (), 0, 1) == (
        plan.impact,
        plan.evict,
        plan.destroyed,
        len(change.keep[0].destroy_compute),
    )
    assert 0 not in {c.id for c in change.keep[0].destroy_compute}


@pytest.mark.parametrize(
    ("strategy", "wish", "reason"),
    [
        (Strategy.MIXED, Layout((GpuEntry((replace(entry("3g").slices[0], compute=(1, 1)),)),)), "StrategyMismatch"),
        (Strategy.SINGLE, layout("1g", "2g"), "StrategyMismatch"),
        (Strategy.SINGLE, Layout((entry("1g*7", match=Match(indices=(0,))),)), "EmptyMIGGPU"),
        (
            Strategy.SINGLE,
            Layout((GpuEntry(match=Match(indices=(0,)), mig=MigMode.DISABLED), entry("1g*7"))),
            "StrategyMismatch",
        ),
        (Strategy.SINGLE, layout("1g*7"), None),
        (Strategy.SINGLE, Layout((GpuEntry((replace(entry("3g*2").slices[0], compute=(1, 1, 1)),)),)), None),
        (Strategy.SINGLE, Layout((GpuEntry(mig=MigMode.DISABLED),)), None),
        (Strategy.MIXED, layout("1g", "2g"), None),
        (Strategy.NONE, Layout((GpuEntry((replace(entry("3g").slices[0], compute=(1, 1)),)),)), None),
    ],
)
def test_layouts_that_the_device_plugin_cannot_advertise_are_refused(
    strategy: Strategy, wish: Layout, reason: str | None
) -> None:
    """Strategy mixed knows full-width slices only, single wants all cards and slices alike, none has no wishes."""
    plan = plan_node([make_card("H100-SXM5-80GB", i) for i in (0, 1)], {}, wish, strategy)
    assert reason == (plan.reason.reason if plan.reason else None)


@given(st.data())
def test_counted_entries_are_assigned_as_a_brute_force_would(data: st.DataObject) -> None:
    """Over all assignments of cards to entries, the plan's cost is the least."""
    cards = [data.draw(cut_cards("A100-SXM4-80GB", i)) for i in range(3)]
    holders = data.draw(held_slices(cards))
    wishes = [entry("3g", "1g", count=1), entry("2g*2", count=1), entry("1g*4")]
    plan = plan_node(cards, holders, Layout(tuple(wishes)))
    expected = min(_assigned(cards, holders, order) for order in permutations(wishes))
    rebuilt = sum(len(k.destroy_compute) for c in plan.cards for k in c.difference.keep)
    assert expected == (len(plan.evict), plan.destroyed, rebuilt)


def _assigned(cards: Sequence[Card], holders: Holders, wishes: Sequence[GpuEntry]) -> Cost:
    ways = []
    for card, wish in zip(cards, wishes, strict=True):
        wanted = filled(card.profiles, resolve(wish.slices, card.profiles, gigabytes(card.memory_mib)))
        assert wanted is not None
        ways.append(set(card_outcomes(card, holders, wanted)))
    return min(total((a, b, c)) for a in ways[0] for b in ways[1] for c in ways[2])
