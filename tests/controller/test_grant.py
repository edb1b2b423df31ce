"""The controller's rules of the grant protocol, rule by rule, and what breaks without them."""

# ruff: noqa: ANN401 - fields of records are passed on
from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mig_manager.api.migconfig import Disruption, Drain
from mig_manager.api.rest import LONGEST_REST_S
from mig_manager.controller.grant import differs
from mig_manager.controller.records import MIGNodeRecord
from mig_manager.controller.views import NO_AGENT, NOT_RESPONDING, View
from tests.controller.builders import (
    DONE,
    EARLIER,
    FORMER,
    LATER,
    ME,
    NOON,
    NOT_READY,
    A,
    B,
    answer,
    budget,
    config,
    decided,
    grant,
    node,
    obstructed,
    plan,
    short,
    shorts,
    view,
    wish,
    writes,
)

UNGRANTED = view()
SLOTTED = grant(slot=True)


def named(name: str, **changes: Any) -> View:
    return view(node(name, **changes))


# Rule C2 is about who holds a slot


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, False),
        ({"grant": SLOTTED}, True),
        ({"grant": grant()}, False),
        ({"grant": grant(slot=True, revoked=True)}, False),
        ({"grant": SLOTTED, "state": answer(1, "Held")}, True),
        ({"grant": grant(slot=True, revoked=True), "state": answer(1, "Held")}, True),
        ({"grant": SLOTTED, "state": answer(1, "Released")}, False),
        ({"grant": SLOTTED, "state": answer(1, "Repairing")}, False),
        ({"grant": grant(2, slot=True), "state": answer(1, "Released")}, True),
        ({"grant": grant(2, slot=True), "state": answer(1, "Held")}, True),
        ({"grant": grant(2), "state": answer(1, "Repairing")}, False),
    ],
)
def test_who_holds_a_slot(changes: dict[str, Any], holds: bool) -> None:
    """C2: Held, or a slot that is neither revoked nor taken up. Released gives no slot, not even under the same id."""
    assert holds == node(**changes).holds_slot


# What the wish says for people


@pytest.mark.parametrize(
    ("record", "paused", "written"),
    [
        (node(), True, True),
        (node(paused=True), True, False),
        (node(paused=True), False, True),
        (node(plan=DONE), True, False),
        (node(plan=DONE, paused=True), True, False),
        (node(plan=DONE, paused=True), False, True),
        (node(plan=None), True, False),
    ],
)
def test_a_pause_is_written_where_something_waits(record: MIGNodeRecord, *, paused: bool, written: bool) -> None:
    """A node that has its layout, or no plan yet, is not written for a pause; its end is written everywhere."""
    pool = config(paused=paused)
    assert written is differs(View(record, wish(pool=pool)))


def test_the_limit_is_part_of_the_wish() -> None:
    """A node where another limit is written, or none as by an older controller, is told the present one."""
    pool = config(disruption=budget(1, max_impact="FreeSlices"))
    for known in ("EvictPods", None):
        (write,) = writes(View(node(max_impact=known), wish(pool=pool)), pool=pool)
        assert write.desired is not None
        assert "FreeSlices" == write.desired.max_impact
    assert not differs(View(node(max_impact="FreeSlices"), wish(pool=pool)))


# Rule C3 is about giving slots


def test_a_slot_is_given() -> None:
    """C3: a node whose wish is planned gets the first grant, with everything the agent needs."""
    (write,) = writes(UNGRANTED)
    made = write.grant
    assert made is not None
    assert (1, ME, True, False, "pool") == (made.id, made.by, made.slot, made.revoked, made.config)
    assert (wish().hash, wish().layout, A) == (made.hash, made.layout, made.layout.name)


def test_no_more_slots_than_allowed() -> None:
    """C3: with maxUnavailable 2 and three nodes that wait, two get a slot, by name."""
    views = [named(name) for name in ("n3", "n1", "n2")]
    assert [("n1", "slot", 1), ("n2", "slot", 1)] == shorts(*views, pool=config(disruption=budget(2)))


@pytest.mark.parametrize(
    "holder",
    [
        {"grant": SLOTTED},
        {"grant": SLOTTED, "state": answer(1, "Held")},
        {"grant": grant(slot=True, revoked=True), "state": answer(1, "Held")},
    ],
)
def test_a_held_slot_counts(holder: dict[str, Any]) -> None:
    """C3: what was given and not taken up counts like what is Held, even revoked."""
    given = [write for write in shorts(named("n1", **holder), named("n2")) if write[0] == "n2"]
    assert [] == given


def test_slots_of_nodes_that_left_count() -> None:
    """C3: a node that left the pool and is still Held under its grant counts."""
    assert [] == shorts(UNGRANTED, others=1)


def test_other_outages_count_as_courtesy() -> None:
    """C3: a node that is NotReady takes from the budget; it gets its own grant without a slot."""
    assert [("n1", "free", 1)] == shorts(view(node("n1"), outage=NOT_READY), named("n2"))


def test_an_outage_that_holds_a_slot_counts_once() -> None:
    """C3: a Held node that is also unavailable does not count twice."""
    held = view(node("n1", grant=SLOTTED, state=answer(1, "Held")), outage=NOT_READY)
    assert [("n2", "slot", 1)] == shorts(held, named("n2"), pool=config(disruption=budget(2)))


def test_percentages() -> None:
    """C3: 50 % of five nodes are two; of one node still one."""
    views = [named(f"n{number}") for number in range(5)]
    pool = config(disruption=budget("50%"))
    assert [("n0", "slot", 1), ("n1", "slot", 1)] == shorts(*views, pool=pool)
    assert [("n1", "slot", 1)] == shorts(UNGRANTED, pool=pool)


def test_the_least_harmful_go_first() -> None:
    """Nodes where nobody is evicted come before those where pods are, whatever their names."""
    cheap = named("z", plan=plan(impact="FreeSlices"))
    assert [("z", "slot", 1)] == shorts(named("a"), cheap)


@pytest.mark.parametrize("agent", [NO_AGENT, NOT_RESPONDING])
def test_no_slot_for_an_absent_agent(agent: str) -> None:
    """A slot for an agent that cannot take it up would only be lost to the others."""
    assert [("n2", "slot", 1)] == shorts(view(node("n1"), agent=agent), named("n2"))


def test_nothing_before_the_plan() -> None:
    """Plan before disruption: no grant before the agent has planned this very wish."""
    assert [] == shorts(named("n1", plan=None))
    assert [] == shorts(named("n1", plan=plan(B)))


def test_an_infeasible_node_blocks_itself_alone() -> None:
    """A node whose layout does not fit gets nothing; its turn goes to the next."""
    assert [("n2", "slot", 1)] == shorts(named("n1", plan=plan(reason="LayoutDoesNotFit")), named("n2"))


@pytest.mark.parametrize(
    ("impact", "limit", "allowed"),
    [
        ("FreeSlices", "None", False),
        ("FreeSlices", "FreeSlices", True),
        ("EvictPods", "FreeSlices", False),
        ("EvictPods", "EvictPods", True),
        ("RebootNode", "EvictPods", False),
        ("RebootNode", "RebootNode", True),
    ],
)
def test_max_impact(impact: str, limit: Any, allowed: bool) -> None:
    """A plan that harms more than maxImpact allows is not granted."""
    pool = config(disruption=budget(1, max_impact=limit))
    assert allowed == bool(shorts(named("n1", plan=plan(impact=impact)), pool=pool))


# Rule C4 is about without a slot


def test_unavailable_nodes_need_no_slot() -> None:
    """C4 (two nodes without slices would wait for each other's slot for ever): any number, whatever the budget."""
    views = [view(node(name), outage=NOT_READY) for name in ("n1", "n2", "n3")]
    assert [("n1", "free", 1), ("n2", "free", 1), ("n3", "free", 1)] == shorts(*views, others=5)


def test_a_node_with_nothing_to_do_needs_no_slot() -> None:
    """C4: a node that has its layout already gets a standing grant, so that its agent may repair it."""
    assert [("n1", "free", 1)] == shorts(named("n1", plan=DONE), others=5)


def test_creating_in_free_space_needs_a_slot() -> None:
    """Impact None with slices to create is work, not nothing to do."""
    assert [("n1", "slot", 1)] == shorts(named("n1", plan=plan(impact="None")))


def test_a_standing_grant_is_renewed_after_a_pause() -> None:
    """C4: revoked while it stood, and the layout is there: the next id, without a slot."""
    revoked = named("n1", grant=grant(4, revoked=True), state=answer(4), plan=DONE)
    assert [("n1", "free", 5)] == shorts(revoked, others=5)


def test_a_slotless_grant_becomes_one_with_a_slot() -> None:
    """C4 (neither side moves): the node came back before its agent took the grant up."""
    assert [("n1", "slot", 2)] == shorts(named("n1", grant=grant(1)))
    assert [] == shorts(named("n1", grant=grant(1)), others=1)


def test_a_slotless_grant_waits_while_it_can_be_used() -> None:
    """C4: still unavailable, or at work as Repairing: nothing to replace."""
    assert [] == shorts(view(node(grant=grant(1)), outage=NOT_READY))
    assert [] == shorts(named("n1", grant=grant(2), state=answer(1, "Repairing")))


def test_an_acknowledgement_is_waited_for() -> None:
    """C4: with nothing to do the agent only acknowledges; when it does not, it sees work and needs a slot."""
    fresh = view(node(grant=grant(1), plan=DONE), asked_s=10)
    assert ([], 50.0) == (shorts(fresh), decided(fresh).wake_s)
    assert [("n1", "slot", 2)] == shorts(replace(fresh, asked_s=60))


def test_a_repair_that_became_pointless_ends_first() -> None:
    """A node that is Repairing for an old layout and is available again stands down before it is counted."""
    assert [] == shorts(named("n1", grant=grant(1, B), state=answer(1, "Repairing")))


def test_the_next_layout_for_a_node_in_repair() -> None:
    """C5: while it is unavailable anyway, the next layout needs no slot either."""
    repairing = view(node(grant=grant(1, B), state=answer(1, "Repairing")), outage=NOT_READY)
    assert [("n1", "free", 2)] == shorts(repairing, others=5)


# Rule C5 is about replacing


def test_a_new_layout_is_a_new_id() -> None:
    """C5: the layout changed after the former one was applied; it is counted afresh."""
    applied = named("n1", grant=grant(7, B, slot=True), state=answer(7))
    assert [("n1", "slot", 8)] == shorts(applied)
    assert [] == shorts(applied, others=1)


def test_a_held_node_is_replaced_in_place() -> None:
    """C5: it keeps its slot, so no count is needed, even if the budget was lowered meanwhile."""
    held = named("n1", grant=grant(3, B, slot=True), state=answer(3, "Held"))
    assert [("n1", "slot", 4)] == shorts(held, others=5)


def test_an_untaken_grant_is_replaced_in_place() -> None:
    """C5: one's own grant not yet taken up: the same."""
    assert [("n1", "slot", 4)] == shorts(named("n1", grant=grant(3, B, slot=True)), others=5)


def test_back_to_the_layout_on_the_cards() -> None:
    """C5, A to B to A: the untaken grant for B is replaced, although nothing is left to do."""
    back = named("n1", grant=grant(3, B, slot=True), plan=DONE)
    assert [("n1", "slot", 4)] == shorts(back)


@pytest.mark.parametrize("result", ["Aborted", "Failed", "RolledBack"])
def test_another_attempt_has_another_id(result: str) -> None:
    """C5 (Released gives no slot): after notBefore, and not before it, a failed node is counted afresh."""
    tried = node(grant=grant(2, slot=True), state=answer(2, "Released", result, not_before=LATER))
    assert ([], 300.0) == (shorts(view(tried)), decided(view(tried)).wake_s)
    over = replace(tried, state=answer(2, "Released", result, not_before=EARLIER))
    assert [("n1", "slot", 3)] == shorts(view(over))
    assert [] == shorts(view(over), others=1)


def test_a_new_layout_does_not_wait() -> None:
    """NotBefore is about the layout that failed."""
    tried = named("n1", grant=grant(2, B, slot=True), state=answer(2, "Released", "Failed", not_before=LATER))
    assert [("n1", "slot", 3)] == shorts(tried)


def test_work_after_a_revocation() -> None:
    """C5: revoked and released, and work is wanted: a new id, counted. Revoked and Held: in place."""
    revoked = grant(2, slot=True, revoked=True)
    assert [("n1", "slot", 3)] == shorts(named("n1", grant=revoked, state=answer(2, "Released", "Aborted")))
    assert [("n1", "slot", 3)] == shorts(named("n1", grant=revoked, state=answer(2, "Held")), others=5)


@pytest.mark.parametrize("state", [None, answer(1, "Held"), answer(1, "Repairing")])
def test_work_under_way_is_left_alone(state: Any) -> None:
    """A grant that says what is wanted, taken up or not, needs nothing."""
    assert [] == shorts(named("n1", grant=SLOTTED, state=state))


def test_a_settled_node_needs_nothing() -> None:
    """The layout is there and the grant stands: no write, also when the node is unavailable."""
    settled = node(grant=SLOTTED, state=answer(1), plan=DONE)
    assert [] == shorts(view(settled))
    assert [] == shorts(view(settled, outage=NOT_READY))


def test_drift_is_repaired_without_counting() -> None:
    """Slices are missing under a standing grant: a new id without a slot lets the agent do what the old one forbids."""
    drifted = view(node(grant=SLOTTED, state=answer(1), slices_missing=True), outage=NOT_READY)
    assert [("n1", "free", 2)] == shorts(drifted, others=5)


# Rule C5 is about terms


@pytest.mark.parametrize(
    "pool",
    [
        config(disruption=budget(1, max_impact="FreeSlices")),
        config(rollback="Never"),
    ],
)
def test_standing_grants_get_new_terms(pool: Any) -> None:
    """What governs repairs is renewed, without a slot."""
    assert [("n1", "free", 2)] == shorts(view(node(grant=SLOTTED, state=answer(1), plan=DONE)), pool=pool)


def test_drain_terms_matter_only_to_who_drains() -> None:
    """A standing grant drains nobody; one that is Held or not taken up is replaced."""
    pool = config(disruption=Disruption(drain=Drain(60)))
    assert [] == shorts(view(node(grant=SLOTTED, state=answer(1), plan=DONE)), pool=pool)
    assert [("n1", "slot", 2)] == shorts(view(node(grant=SLOTTED, state=answer(1, "Held"))), pool=pool)
    assert [("n1", "slot", 2)] == shorts(view(node(grant=SLOTTED)), pool=pool)


def test_better_drain_terms_are_tried_at_once() -> None:
    """An attempt that was given up rests, unless the terms on which it drained have changed since."""
    aborted = answer(1, result="Aborted", not_before=LATER)
    wanting = node(grant=SLOTTED, state=aborted)
    assert [] == shorts(view(wanting))
    pool = config(disruption=Disruption(drain=Drain(force=True)))
    renewed = View(replace(wanting, drain=Drain(force=True)), wish(pool=pool))
    assert [("n1", "slot", 2)] == shorts(renewed, pool=pool)


def test_changed_drain_terms_are_planned_first() -> None:
    """The plan says whether pods can be made to leave, so it is made on the terms of the day."""
    pool = config(disruption=Disruption(drain=Drain(force=True)))
    assert [("n1", "wish")] == shorts(View(node(), wish(pool=pool)), pool=pool)


def test_no_slot_where_nobody_can_be_moved() -> None:
    """A node with a pod in the way that no drain can move gets no slot, and one it did not take up goes to others."""
    assert [] == shorts(view(node(plan=obstructed())))
    assert [] == shorts(view(node(plan=obstructed()), outage=NOT_READY))
    waiting = view(node("n2"))
    first = decided(view(node(grant=SLOTTED, plan=obstructed())), waiting)
    assert [("n1", "revoke")] == [short(write) for write in first.writes]
    assert "DaemonSetPod" in first.writes[0].why
    lost = view(node(grant=grant(slot=True, revoked=True), plan=obstructed()))
    assert [("n2", "slot", 1)] == shorts(lost, waiting)
    assert [] == shorts(view(node(grant=SLOTTED, state=answer(1, "Held"), plan=obstructed())))


def test_lowering_max_impact_stops_what_it_forbids() -> None:
    """Somebody lowers maxImpact to stop evictions: the grant that allowed them is revoked, Held or not."""
    pool = config(disruption=budget(1, max_impact="FreeSlices"))
    assert [("n1", "revoke")] == shorts(view(node(grant=SLOTTED, state=answer(1, "Held"))), pool=pool)
    assert [("n1", "revoke")] == shorts(view(node(grant=SLOTTED)), pool=pool)
    revoked = grant(slot=True, revoked=True)
    assert [] == shorts(view(node(grant=revoked, state=answer(1, "Held"))), pool=pool)


def test_nobody_is_disturbed_for_a_layout_that_is_not_wanted() -> None:
    """The new layout does not fit: a pending grant for the old one is revoked, a standing one stands."""
    misfit = plan(reason="LayoutDoesNotFit")
    assert [("n1", "revoke")] == shorts(named("n1", grant=grant(1, B, slot=True), plan=misfit))
    assert [] == shorts(named("n1", grant=grant(1, B, slot=True), state=answer(1), plan=misfit))


# Rule C6 is about revoking


@pytest.mark.parametrize(
    ("given", "state", "revoked"),
    [
        (grant(slot=True), None, True),
        (grant(), None, True),
        (grant(slot=True), answer(1, "Held"), True),
        (grant(slot=True), answer(1, "Repairing"), True),
        (grant(2, slot=True), answer(1, "Held"), True),
        (grant(slot=True), answer(1, "Released"), False),
        (grant(slot=True, revoked=True), answer(1, "Held"), False),
        (None, None, False),
    ],
)
def test_pause(given: Any, state: Any, revoked: bool) -> None:
    """C6: on pause what is not Released is revoked, standing grants stay, and there are no new ids."""
    expected = [("n1", "revoke")] if revoked else []
    assert expected == shorts(named("n1", grant=given, state=state), pool=config(paused=True))


def test_pause_still_publishes_plans() -> None:
    """A paused pool shows what a change would take: the wish is written, and a pending grant revoked with it."""
    changed = view(node(grant=SLOTTED), profile=B)
    assert [("n1", "wish", "revoke")] == shorts(changed, pool=config(paused=True))


def test_an_unknown_profile_pauses_the_node() -> None:
    """A typing error in the node's label leaves the last layout as it is: nothing pending goes on."""
    typo = replace(view(node(grant=SLOTTED)), wish=wish("al-1g"))
    assert [("n1", "wish", "revoke")] == shorts(typo)
    standing = replace(view(node(grant=SLOTTED, state=answer(1))), wish=wish("al-1g"))
    assert [("n1", "wish")] == shorts(standing)
    (write,) = writes(standing)
    assert write.desired is not None
    assert write.desired.error.startswith("UnknownProfile: no profile is called 'al-1g'")


def test_the_wish_comes_before_the_grant() -> None:
    """A changed layout is first planned: the grant follows when the agent has answered."""
    assert [("n1", "wish")] == shorts(view(profile=B))


def test_the_generation_alone_is_no_reason_to_write() -> None:
    """Pausing 5,000 nodes must not write 5,000 wishes."""
    assert [] == shorts(named("n1", grant=SLOTTED, state=answer(1), plan=DONE), pool=config(generation=9))


# Rule C7 is about a former leader's grants


def test_a_former_leaders_slot_is_revoked() -> None:
    """C7 (its renewal in place would be a second node out): revoked first, then it counts like any other."""
    inherited = named("n1", grant=grant(3, slot=True, by=FORMER))
    assert [("n1", "revoke")] == shorts(inherited)
    after = named("n1", grant=grant(3, slot=True, by=FORMER, revoked=True))
    assert [("n1", "slot", 4)] == shorts(after)
    assert [] == shorts(after, others=1)


def test_a_former_leaders_slot_for_another_layout_is_revoked() -> None:
    """C7: replacing in place is for own grants only."""
    assert [("n1", "revoke")] == shorts(named("n1", grant=grant(3, B, slot=True, by=FORMER)))


def test_what_a_former_leader_gave_and_was_taken_up_stands() -> None:
    """C7 is about slots that are not taken up; Held nodes, standing and slotless grants are as good as ours."""
    for state, done in ((answer(1, "Held"), plan()), (answer(1), DONE)):
        assert [] == shorts(named("n1", grant=grant(slot=True, by=FORMER), state=state, plan=done))
    assert [] == shorts(view(node(grant=grant(by=FORMER)), outage=NOT_READY))


def test_a_held_node_with_a_former_leaders_next_grant() -> None:
    """It is Held, so it has a slot; the next grant that nobody can take up any more is replaced in place."""
    held = named("n1", grant=grant(4, slot=True, by=FORMER), state=answer(3, "Held"))
    assert [("n1", "slot", 5)] == shorts(held, others=5)


# Rule C8 is about patience


def test_a_slot_is_not_kept_for_a_dead_agent() -> None:
    """C8: not taken up within a minute: revoked. Until then it is due again at the end of the minute."""
    waiting = view(node(grant=SLOTTED), asked_s=59)
    assert ([], 1.0) == (shorts(waiting), decided(waiting).wake_s)
    assert [("n1", "revoke")] == shorts(replace(waiting, asked_s=60))


def test_a_held_node_keeps_its_slot() -> None:
    """C8: a node that is Held with a dead agent really is out."""
    held = view(node(grant=SLOTTED, state=answer(1, "Held")), asked_s=1000, agent=NOT_RESPONDING)
    assert [] == shorts(held)


def test_no_slot_again_before_an_answer() -> None:
    """C8: after the revocation the agent has to show that it lives, by observedGeneration."""
    silent = node(grant=grant(slot=True, revoked=True), observed_generation=4)
    assert [] == shorts(view(silent))
    assert [("n1", "slot", 2)] == shorts(view(replace(silent, observed_generation=5)))


# Several pools


def test_a_node_from_another_pool_gives_its_slot_back_first() -> None:
    """Replaced in place it would be out under a budget that never counted it."""
    held = node(grant=grant(3, slot=True, config="other"), state=answer(3, "Held"))
    assert [("n1", "revoke")] == shorts(view(held))
    revoked = replace(held, grant=grant(3, slot=True, config="other", revoked=True))
    assert [] == shorts(view(revoked))
    assert [("n1", "slot", 4)] == shorts(view(replace(revoked, state=answer(3))))


def test_a_standing_grant_of_another_pool_is_renewed() -> None:
    """With the same layout the node needs nothing but a grant of its new pool."""
    moved = node(grant=grant(3, slot=True, config="other"), state=answer(3), plan=DONE)
    assert [("n1", "free", 4)] == shorts(view(moved))


def test_an_untaken_slot_of_no_pool() -> None:
    """A grant that does not say whose it is counts for nobody, so it goes."""
    (write,) = writes(view(node(grant=grant(slot=True, config=""))))
    assert (True, "the node has left its pool") == (write.revoke, write.why)


# What is left alone


def test_what_cannot_be_read_or_is_going() -> None:
    """A MIGNode that is being deleted, or written under another agreement, is not touched."""
    assert [] == shorts(view(node(deleting=True)), view(node("n2", unreadable="schema 2")))


def test_granting_without_a_layout_is_a_mistake() -> None:
    """A wish without layout and without error does not exist."""
    with pytest.raises(ValueError, match="there is no layout"):
        shorts(View(node(), replace(wish(), layout=None)))


def test_resting_needs_an_answer() -> None:
    """Without a grant, an answer, or notBefore in it, nobody rests."""
    assert 0 == view(node(state=answer(not_before=LATER))).rest_s(NOON)
    assert [0, 0, 300] == [
        view(node(grant=SLOTTED, state=state)).rest_s(NOON) for state in (None, answer(), answer(not_before=LATER))
    ]


def test_a_clock_that_was_far_ahead_holds_nobody_off() -> None:
    """NotBefore that lies farther ahead than any rest was written by a wrong clock, and counts as not set."""
    longest = timedelta(seconds=LONGEST_REST_S + SLOTTED.drain.timeout_s)
    tried = node(grant=SLOTTED, state=answer(1, result="Aborted", not_before=NOON + longest))
    assert ([], longest.total_seconds()) == (shorts(view(tried)), decided(view(tried)).wake_s)
    ahead = answer(1, result="Aborted", not_before=NOON + longest + timedelta(seconds=1))
    assert [("n1", "slot", 2)] == shorts(view(replace(tried, state=ahead)))


def lapsed(name: str, number: int) -> View:
    """A node whose last slot was revoked, since its agent could not take it up and said so."""
    return view(node(name, grant=grant(number, slot=True, revoked=True)))


def test_a_slot_that_lapsed_goes_to_the_others_first() -> None:
    """A node with somebody in the way whom no drain can move does not have every turn because of its name."""
    assert ("n2", "slot", 1) == shorts(lapsed("n1", 1), view(node("n2")))[0]
    assert ("n1", "slot", 2) == shorts(lapsed("n1", 1))[0]


def test_nodes_that_let_slots_lapse_take_turns() -> None:
    """The one with the fewest grants is next, so each of them is asked again when it can go on by now."""
    assert ("n2", "slot", 4) == shorts(lapsed("n1", 4), lapsed("n2", 3))[0]
    assert ("n1", "slot", 5) == shorts(lapsed("n1", 4), lapsed("n2", 4))[0]
