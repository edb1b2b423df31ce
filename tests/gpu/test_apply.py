"""What applying a plan does, refuses and takes back."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout, MigMode
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, Holder, Holders, SliceKey
from mig_manager.gpu.apply import DEFAULT_MEANS, apply
from mig_manager.gpu.hints import GHOST_HINT
from mig_manager.gpu.holders import process_holders
from mig_manager.gpu.parts import Action, Event
from mig_manager.gpu.port import GpuSession
from mig_manager.gpu.result import Outcome
from mig_manager.planner.plan import CardPlan, Impact, Plan
from mig_manager.planner.target import difference, target_of
from mig_manager.sim.model.codes import NvmlCode
from tests.gpu.worlds import A100, H100, SXM, Make, World, on, wants

CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def recut(make: Make) -> tuple[World, Layout]:
    """GPU 0 holds 1g, 2g, 3g and is to hold three 1g and a 3g cut in two; a process uses GPU 1."""
    world = make(A100, A100)
    for name, start in (("1g", 0), ("2g", 2), ("3g", 4)):
        world.machine.add_instance(0, name, start=start)
    world.machine.add_instance(1, "7g")
    world.machine.hold(1, start=0)
    return world, wants(on(0, "1g*3", "3g/1c,2c"))


def somebody_comes(w: World, start: int | None = None) -> str:
    """A last look that sees nothing, right before somebody takes a slice of GPU 0, or all of it."""
    w.machine.hold(0, start=start, pid=4_190_000)
    return ""


def test_applies_the_plan(world: Make) -> None:
    """After Applied the cards are as planned, and the journal knows it as the last good layout."""
    w, layout = recut(world)
    result = w.apply(w.plan(layout))
    assert (Outcome.APPLIED, "", "") == (result.outcome, result.reason, result.message)
    assert ["1g.10gb@0[1c@0]", "1g.10gb@1[1c@0]", "1g.10gb@2[1c@0]", "3g.40gb@4[2c@0,1c@2]"] == w.shape()[0]
    record = w.journal.read()
    assert record.intent is None
    assert target_of(w.cards()[0]) == record.last_good[w.cards()[0].uuid]
    assert (w.cards()[0],) == result.cards


def test_order_and_names_of_the_calls(world: Make) -> None:
    """Compute instances go before their GPU instance, and everything goes before anything comes."""
    w, layout = recut(world)
    heard: list[Event] = []
    result = w.apply(w.plan(layout), means=w.means(progress=heard.append))
    assert [
        "destroying compute instance 3c at 0 of 3g.40gb at 4 on GPU 0",
        "destroying compute instance 2c at 0 of 2g.20gb at 2 on GPU 0",
        "destroying GPU instance 2g.20gb at 2 on GPU 0",
        "creating compute instance 2c at 0 of 3g.40gb at 4 on GPU 0",
        "creating compute instance 1c at 2 of 3g.40gb at 4 on GPU 0",
        "creating GPU instance 1g.10gb at 1 on GPU 0",
        "creating compute instance 1c at 0 of 1g.10gb at 1 on GPU 0",
        "creating GPU instance 1g.10gb at 2 on GPU 0",
        "creating compute instance 1c at 0 of 1g.10gb at 2 on GPU 0",
    ] == [str(c) for c in result.calls]
    assert tuple(heard) == result.calls


def test_neighbours_are_untouched(world: Make) -> None:
    """Every changing call names the card it is for; kept slices and other cards are the very same as before."""
    w, layout = recut(world)
    kept, neighbour = w.births(0), w.births(1)
    result = w.apply(w.plan(layout))
    assert {w.cards()[0].uuid} == {c.gpu_uuid for c in result.calls}
    assert neighbour == w.births(1)
    for key in ((7, 19, 0), (2, 9, 4)):  # the 1g at 0 and the 3g at 4
        assert kept[key] == w.births(0)[key]


def test_nothing_to_do(world: Make) -> None:
    """A second run changes nothing and leaves the journal as it is."""
    w, layout = recut(world)
    w.apply(w.plan(layout))
    before = w.path.stat().st_mtime_ns
    result = w.apply(w.plan(layout))
    assert (Outcome.NOTHING_TO_DO, ()) == (result.outcome, result.calls)
    assert before == w.path.stat().st_mtime_ns


def test_what_is_there_already_becomes_last_good(world: Make) -> None:
    """Cards that somebody else cut as planned are taken over without a call, also those beside a changed one."""
    w = world(A100, A100)
    w.machine.add_instance(0, "7g")
    layout = wants(on(0, "7g"), on(1, "7g"))
    assert Outcome.APPLIED is w.apply(w.plan(layout)).outcome
    assert {c.uuid for c in w.cards()} == set(w.journal.read().last_good)
    w.path.unlink()
    assert Outcome.NOTHING_TO_DO is w.apply(w.plan(layout)).outcome
    assert {c.uuid for c in w.cards()} == set(w.journal.read().last_good)


def test_infeasible_plan_is_refused(world: Make) -> None:
    """A plan that cannot be is refused with its own reason."""
    w = world(A100)
    result = w.apply(Plan((), Impact.NONE, reason=LayoutError("LayoutDoesNotFit", "too much")))
    assert (Outcome.REFUSED, "LayoutDoesNotFit", "too much") == (result.outcome, result.reason, result.message)


def test_slice_in_use_is_refused(world: Make) -> None:
    """A slice that somebody uses by now is not destroyed: nothing at all is done, and the holder is named."""
    w, layout = recut(world)
    plan = w.plan(layout)
    before = w.births(0)
    pid = w.machine.hold(0, start=2, pid=4_190_000).pid
    result = w.apply(plan)
    assert (Outcome.REFUSED, "InUse") == (result.outcome, result.reason)
    assert f"destroying GPU instance 2g.20gb at 2 on GPU 0: used by pid {pid}" == result.message
    assert (Holder(f"pid {pid}"),) == result.holders
    assert before == w.births(0)
    assert not w.path.exists()


def test_compute_instance_in_use_is_refused(world: Make) -> None:
    """A compute instance of a kept GPU instance is protected too; several acts are named together."""
    w, layout = recut(world)
    plan = w.plan(layout)
    w.machine.hold(0, start=4, pid=4_190_001)
    assert "destroying compute instance 3c at 0 of 3g.40gb at 4 on GPU 0: used by pid 4190001" == w.apply(plan).message
    w.machine.hold(0, start=2, pid=4_190_002)
    assert "applying the plan: used by pid 4190001, pid 4190002" == w.apply(plan).message


def test_leaving_holders_count(world: Make) -> None:
    """A pod that is being deleted still uses its slice until it is gone."""
    w, layout = recut(world)
    plan = w.plan(layout)
    doomed = w.cards()[0].instances[1]

    def leaving(_: GpuSession, uuids: Collection[str]) -> Holders:
        return {SliceKey(uuid, doomed.id, 0): frozenset({Holder("ns/pod", leaving=True)}) for uuid in uuids}

    result = w.apply(plan, means=replace(w.means(), holders=leaving))
    assert (Outcome.REFUSED, "InUse") == (result.outcome, result.reason)


def test_holders_are_looked_at_right_before_each_destroy(world: Make) -> None:
    """Somebody who takes a slice in mid-flight keeps it, and what was destroyed before comes back."""
    w = world(A100)
    for start in (0, 1):
        w.machine.add_instance(0, "1g", start=start)
    plan = w.plan(wants(on(0, "7g")))
    destroyed: list[Event] = []

    def hears(event: Event) -> None:
        destroyed.append(event)
        if event.action is Action.DESTROY_INSTANCE and not w.machine.card(0).clients:
            w.machine.hold(0, start=1, pid=4_190_000)

    before = w.births(0)
    result = w.apply(plan, means=w.means(progress=hears))
    assert (Outcome.ROLLED_BACK, "ApplyFailed") == (result.outcome, result.reason)
    assert "destroying GPU instance 1g.10gb at 1 on GPU 0: used by pid 4190000" == result.message
    assert (Holder("pid 4190000"),) == result.holders
    assert [] == w.slept
    assert [["1g.10gb@0[1c@0]", "1g.10gb@1[1c@0]"]] == w.shape()
    assert before[8, 19, 1] == w.births(0)[8, 19, 1]


def test_holder_between_record_and_first_destroy(world: Make) -> None:
    """Whoever comes after the first look and before the first call is seen; nothing was changed, so it is a refusal."""
    w, layout = recut(world)
    plan = w.plan(layout)
    before = w.births(0)
    result = w.apply(plan, last_look=lambda: somebody_comes(w, start=4))
    assert (Outcome.REFUSED, "InUse", ()) == (result.outcome, result.reason, result.calls)
    assert before == w.births(0)
    assert w.journal.read().intent is None


def test_last_look_drops_the_intent(world: Make) -> None:
    """A last look that finds something stops before the first call; the intent names who ordered it until then."""
    w, layout = recut(world)
    plan = w.plan(layout)
    before = w.births(0)
    seen = []

    def look() -> str:
        seen.append(w.journal.read().intent)
        return "NodeUncordoned"

    result = w.apply(plan, intent_id="41", last_look=look)
    assert (Outcome.REFUSED, "NodeUncordoned") == (result.outcome, result.reason)
    assert ["41"] == [intent.id for intent in seen if intent]
    assert ["2026-01-02T03:04:05+00:00"] == [intent.created for intent in seen if intent]
    assert w.journal.read().intent is None
    assert before == w.births(0)


def test_unplanned_instances_are_refused(world: Make) -> None:
    """What somebody made after the plan was made is not destroyed by it."""
    w, layout = recut(world)
    plan = w.plan(layout)
    w.machine.add_instance(0, "1g", start=1)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    before = w.births(0)
    result = w.apply(plan)
    assert (Outcome.REFUSED, "Unplanned") == (result.outcome, result.reason)
    expected = "destroying GPU instance 1g.10gb+me at 0 on GPU 0: it is not part of the plan, somebody else made it"
    assert f"{expected}; plan again" == result.message
    assert before == w.births(0)


def test_unplanned_instances_in_mid_flight_are_kept(world: Make) -> None:
    """What somebody makes in mid-flight makes the change fail, and is neither destroyed by it nor by going back."""
    w = world(A100)
    w.machine.add_instance(0, "2g", start=0)
    plan = w.plan(wants(on(0, "1g*7")))

    def hears(event: Event) -> None:
        if event.action is Action.CREATE_INSTANCE and len(w.machine.card(0).instances) == 1:
            w.machine.add_instance(0, "1g+me", start=6)

    result = w.apply(plan, means=w.means(progress=hears))
    assert (Outcome.FAILED, "RollbackFailed") == (result.outcome, result.reason)
    assert "insufficient resources" in result.message.lower()
    assert "1g.10gb+me at 6" in result.message
    assert ["1g.10gb+me@6[1c@0]"] == [s for s in w.shape()[0] if "+me" in s]
    assert ({}, None) == (w.journal.read().last_good, w.journal.read().intent)


def test_unplanned_mode_change_is_refused(world: Make) -> None:
    """A card whose MIG mode went away since the plan was made is not switched by that plan."""
    w = world(H100)
    plan = w.plan(wants(on(0, "7g")))
    w.machine.reboot()
    result = w.apply(plan)
    assert (Outcome.REFUSED, "Unplanned") == (result.outcome, result.reason)
    assert [["off"]] == w.shape()


def test_vanished_card_is_refused(world: Make) -> None:
    """A card that is not there any more is named, and nothing is done."""
    w, layout = recut(world)
    plan = w.plan(layout)
    uuid = w.machine.remove_card(0).uuid
    result = w.apply(plan)
    assert (Outcome.REFUSED, "GpuGone") == (result.outcome, result.reason)
    assert f"opening GPU 0: GPU {uuid} is gone; plan again" == result.message


def test_failed_creation_rolls_back(world: Make) -> None:
    """When a creation fails for good, the card is as it was, and the last good layout stays."""
    w, layout = recut(world)
    before = w.shape()
    plan = w.plan(layout)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2])
    result = w.apply(plan)
    assert (Outcome.ROLLED_BACK, "ApplyFailed") == (result.outcome, result.reason)
    assert "creating GPU instance 1g.10gb at 2 on GPU 0: Insufficient Resources" == result.message
    assert before == w.shape()
    assert ({}, None) == (w.journal.read().last_good, w.journal.read().intent)


def test_going_back_can_be_unwanted(world: Make) -> None:
    """Then a change that fails is left as it is, nothing is promised, and the next run starts from there."""
    w, layout = recut(world)
    plan = w.plan(layout)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2])
    result = w.apply(plan, means=replace(w.means(), goes_back=False))
    assert (Outcome.FAILED, "ApplyFailed") == (result.outcome, result.reason)
    assert result.message.endswith("the cards stay as they are, because going back was not wanted")
    assert ({}, None) == (w.journal.read().last_good, w.journal.read().intent)
    assert Outcome.APPLIED is w.apply(w.plan(layout)).outcome


def test_unwanted_going_back_is_no_failure_of_what_never_began(world: Make) -> None:
    """A first call that fails has changed nothing, whatever was wanted for later ones."""
    w, layout = recut(world)
    before = w.shape()
    plan = w.plan(layout)
    w.machine.inject("nvmlComputeInstanceDestroy", code=NvmlCode.UNKNOWN, calls="every")
    result = w.apply(plan, means=replace(w.means(), goes_back=False))
    assert (Outcome.ROLLED_BACK, before) == (result.outcome, w.shape())


def test_failed_rollback_says_both_errors(world: Make) -> None:
    """When going back fails too, the intent is closed, no layout is good any more, and both errors are told."""
    w, layout = recut(world)
    w.apply(w.plan(wants(on(1, "7g"))))
    plan = w.plan(layout)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    result = w.apply(plan)
    assert (Outcome.FAILED, "RollbackFailed") == (result.outcome, result.reason)
    assert "creating GPU instance 1g.10gb at 1 on GPU 0: Insufficient Resources" in result.message
    assert "going back failed too: creating GPU instance 2g.20gb at 2 on GPU 0" in result.message
    assert ({}, None) == (w.journal.read().last_good, w.journal.read().intent)


def test_rollback_heals_every_card_it_can(world: Make) -> None:
    """One card that cannot go back does not keep the others from going back."""
    w = world(A100, A100)
    for gpu in (0, 1):
        w.machine.add_instance(gpu, "2g", start=0)
    plan = w.plan(wants(on(0, "7g"), on(1, "7g")))
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2, 3])  # 7g on GPU 1, then 2g on GPU 0
    result = w.apply(plan)
    assert Outcome.FAILED is result.outcome
    assert [[], ["2g.20gb@0[2c@0]"]] == w.shape()


def test_in_use_is_retried_for_a_while(world: Make) -> None:
    """An instance that nobody visible uses is tried again a few times; then NVML's own words are the error."""
    w, layout = recut(world)
    plan = w.plan(layout)
    w.machine.inject("nvmlGpuInstanceDestroy", code=NvmlCode.IN_USE, calls=[1, 2, 3])
    assert Outcome.APPLIED is w.apply(plan).outcome
    assert [1.0, 2.0, 4.0] == w.slept


def test_ghost_holder(world: Make) -> None:
    """An instance that something invisible keeps busy is left alone after the retries."""
    w, layout = recut(world)
    before = w.shape()
    plan = w.plan(layout)
    w.machine.hold(0, start=2, visible=False)
    result = w.apply(plan)
    assert Outcome.ROLLED_BACK is result.outcome
    act = "destroying compute instance 0 of GPU instance 2g.20gb at 2 on GPU 0"
    assert f"{act}: In use by another client; {GHOST_HINT}" == result.message
    assert "GhostHolder" == result.reason
    assert [1.0, 2.0, 4.0] == w.slept
    assert before == w.shape()


def test_lie_of_the_driver_is_found_out(world: Make) -> None:
    """A destroy that says success and does nothing is not taken for success."""
    w = world(A100)
    w.machine.add_instance(0, "7g")
    before = w.shape()
    plan = w.plan(wants(on(0, mig=MigMode.DISABLED)))
    w.machine.inject("nvmlDeviceSetMigMode", silent=True)
    result = w.apply(plan)
    assert Outcome.ROLLED_BACK is result.outcome
    assert "disabling MIG on GPU 0: the driver reported success, but nothing changed" == result.message
    assert before == w.shape()


def test_silent_destroy_is_found_out(world: Make) -> None:
    """An instance that is still there after its destruction fails the read-back."""
    w, _ = recut(world)
    plan = w.plan(wants(on(0, "1g", "2g")))
    w.machine.inject("nvmlGpuInstanceDestroy", silent=True, calls=[1])
    before = w.shape()
    result = w.apply(plan)
    assert (Outcome.ROLLED_BACK, "verifying GPU 0: the card does not show the layout that was made") == (
        result.outcome,
        result.message,
    )
    assert before == w.shape()


def test_instance_that_vanishes_by_itself(world: Make) -> None:
    """Somebody else destroying what was to go does not disturb."""
    w, layout = recut(world)
    plan = w.plan(layout)

    def hears(event: Event) -> None:
        if event.action is Action.DESTROY_COMPUTE and any(i.start == 2 for i in w.machine.card(0).instances):
            w.machine.remove_instance(0, start=2)

    assert Outcome.APPLIED is w.apply(plan, means=w.means(progress=hears)).outcome


@pytest.mark.parametrize("model", [A100, H100])
def test_mode_change(world: Make, model: str) -> None:
    """MIG is switched on and off again with the slices it takes."""
    w = world(model, mig=False)
    assert Outcome.APPLIED is w.apply(w.plan(wants(on(0, "3g*2")))).outcome
    assert [["3g.40gb@0[3c@0]", "3g.40gb@4[3c@0]"]] == w.shape()
    assert Outcome.APPLIED is w.apply(w.plan(wants(on(0, mig=MigMode.DISABLED)))).outcome
    assert [["off"]] == w.shape()


def test_mode_change_of_a_card_in_use_is_refused(world: Make) -> None:
    """A process on a card without MIG holds the whole card."""
    w = world(A100, mig=False)
    plan = w.plan(wants(on(0, "7g")))
    w.machine.hold(0, pid=4_190_000)
    result = w.apply(plan)
    assert "changing the MIG mode of GPU 0: used by pid 4190000" == result.message
    assert not w.machine.card(0).mig_pending


def test_holder_right_before_the_mode_change(world: Make) -> None:
    """Whoever comes after the first look stops the mode change."""
    w = world(A100, mig=False)
    plan = w.plan(wants(on(0, "7g")))
    result = w.apply(plan, last_look=lambda: somebody_comes(w))
    assert (Outcome.REFUSED, "enabling MIG on GPU 0: used by pid 4190000") == (result.outcome, result.message)
    assert not w.machine.card(0).mig_pending


def group(make: Make) -> tuple[World, Plan, list[list[str]]]:
    """Two cards that are reset together: GPU 0 is to have MIG, GPU 1 has a slice that is to stay."""
    w = make(SXM, SXM, A100, mig=False)
    w.machine.set_mig(1, enabled=True)
    w.machine.add_instance(1, "3g", start=0)
    w.machine.add_instance(1, "1g", start=4, compute_widths=())
    plan = w.plan(wants(on(0, "7g"), on(2, mig=MigMode.DISABLED)))
    return w, plan, [["7g.80gb@0[7c@0]"], ["3g.40gb@0[3c@0]", "1g.10gb@4[]"], ["off"]]


def test_reset_takes_its_group_along_and_rebuilds_it(world: Make) -> None:
    """A mode that stays pending is made current by a reset; what the neighbour loses by it is made again."""
    w, plan, wanted = group(world)
    result = w.apply(plan)
    assert (Outcome.APPLIED, "") == (result.outcome, result.message)
    assert "resetting GPU 0, GPU 1" in [str(c) for c in result.calls]
    assert wanted == w.shape()


def test_reset_group_in_use_is_refused(world: Make) -> None:
    """A process on a neighbour that a reset would take along stops the change before anything is asked for."""
    w, plan, _ = group(world)
    before = w.shape()
    w.machine.hold(1, start=0, pid=4_190_000)
    result = w.apply(plan)
    assert (Outcome.REFUSED, "InUse") == (result.outcome, result.reason)
    assert before == w.shape()
    assert not w.machine.card(0).mig_pending


def test_holder_right_before_the_reset(world: Make) -> None:
    """Whoever comes on a neighbour after the mode was asked for stops the reset, and the wish is taken back."""
    w, plan, _ = group(world)
    before = w.births(1)

    def hears(event: Event) -> None:
        if event.action is Action.ENABLE and not w.machine.card(1).clients:
            w.machine.hold(1, start=0, pid=4_190_000)

    result = w.apply(plan, means=w.means(progress=hears))
    assert (Outcome.ROLLED_BACK, "resetting GPU 1: used by pid 4190000") == (result.outcome, result.message)
    assert before == w.births(1)
    assert not w.machine.card(0).mig_pending


def test_unplanned_instance_right_before_the_reset(world: Make) -> None:
    """What somebody makes on a neighbour in mid-flight is not lost by a reset."""
    w, plan, _ = group(world)

    def hears(event: Event) -> None:
        if event.action is Action.ENABLE and len(w.machine.card(1).instances) == 2:
            w.machine.add_instance(1, "1g", start=5)

    result = w.apply(plan, means=w.means(progress=hears))
    assert "resetting GPU 1: it is not part of the plan" in result.message
    assert 3 == len(w.machine.card(1).instances)


def test_a_reset_leaves_cards_of_no_group_and_of_other_groups_alone(world: Make) -> None:
    """A card that is reset alone takes nobody along: not another such card in use, not the board beside it."""
    w = world(A100, A100, SXM, SXM, mig=False)
    w.machine.hold(0)
    w.machine.set_mig(0, enabled=True)  # while it is used, that only becomes pending
    w.machine.free(0)
    w.machine.hold(1)
    w.machine.hold(2)
    plan = w.plan(wants(on(0, "7g")))
    result = w.apply(plan)
    assert Outcome.APPLIED is result.outcome
    assert ["resetting GPU 0"] == [str(c) for c in result.calls if c.action is Action.RESET]
    assert ["7g.80gb@0[7c@0]"] == w.shape()[0]


def test_a_board_that_needs_no_reset_is_recut_around_who_is_there(world: Make) -> None:
    """Only a card that is wiped asks everybody on its board to be gone; a kept slice may be in use."""
    w = world(SXM, SXM)
    for gpu in (0, 1):
        w.machine.add_instance(gpu, "3g", start=4)
        w.machine.hold(gpu, start=4)
    result = w.apply(w.plan(wants(on(0, "3g", "2g"), on(1, "3g", "1g"))))
    assert Outcome.APPLIED is result.outcome


def test_a_mode_change_does_not_speak_for_cards_of_no_group(world: Make) -> None:
    """One card gets its mode, another is recut around a slice in use, in the same plan."""
    w = world(H100, H100)
    w.machine.set_mig(0, enabled=False)
    w.machine.add_instance(1, "3g", start=4)
    w.machine.hold(1, start=4)
    result = w.apply(w.plan(wants(on(0, "7g"), on(1, "3g", "2g"))))
    assert Outcome.APPLIED is result.outcome


def test_holders_of_every_card_are_looked_at_before_anything_begins(world: Make) -> None:
    """A slice in use on the first card stops the plan as a whole, before it is written down or a call is made."""
    w = world(A100, A100)
    for gpu in (0, 1):
        w.machine.add_instance(gpu, "3g", start=0)
    plan = w.plan(wants(on(0, "7g"), on(1, "7g")))
    w.machine.hold(0, start=0)
    heard: list[Event] = []
    result = w.apply(plan, means=w.means(progress=heard.append))
    assert (Outcome.REFUSED, "InUse", []) == (result.outcome, result.reason, heard)
    assert not w.journal.path.exists()


def test_a_wish_that_came_after_the_plan_is_not_taken_back(world: Make) -> None:
    """Somebody asked for MIG to be off, which is only pending: to cancel that was not planned."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4)
    w.machine.hold(0, start=4)
    plan = w.plan(wants(on(0, "3g", "2g")))
    w.machine.set_mig(0, enabled=False)
    result = w.apply(plan)
    assert (Outcome.REFUSED, "Unplanned") == (result.outcome, result.reason)
    assert "changing the MIG mode of GPU 0" in result.message
    assert (True, False) == (w.cards()[0].mig_current, w.cards()[0].mig_pending)


def test_a_compute_instance_made_after_the_plan_is_not_destroyed(world: Make) -> None:
    """The plan knew of one compute instance that goes; another one beside it is somebody else's."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=0, compute_widths=[1])
    plan = w.plan(wants(on(0, "3g/2c")))
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "3g", start=0, compute_widths=[1, 1])
    before = w.births(0)
    result = w.apply(plan)
    assert (Outcome.REFUSED, "Unplanned", before) == (result.outcome, result.reason, w.births(0))
    assert "destroying compute instance 1c at 0 of 3g.40gb at 0 on GPU 0: it is not part of the plan" in result.message


def test_no_reset_to_be_had(world: Make) -> None:
    """Without a way to reset, a pending mode is an error that says what it takes, and the wish is taken back."""
    w, plan, _ = group(world)
    before = w.shape()
    result = w.apply(plan, means=replace(w.means(), reset=None))
    assert (Outcome.ROLLED_BACK, "enabling MIG on GPU 0: pending until the card is reset or the node rebooted") == (
        result.outcome,
        result.message,
    )
    assert before == w.shape()
    assert not w.machine.card(0).mig_pending


def test_reset_that_does_nothing(world: Make) -> None:
    """A reset that reports success and changes nothing is not taken for success."""
    w, plan, _ = group(world)
    result = w.apply(plan, means=w.means(reset=lambda _: None))
    assert (Outcome.ROLLED_BACK, "enabling MIG on GPU 0: the reset did not make it current") == (
        result.outcome,
        result.message,
    )


def test_pass_through_needs_a_reboot(world: Make) -> None:
    """An Ampere card passed through to a virtual machine cannot be reset; the wish is taken back."""
    w = world(A100, mig=False)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    result = w.apply(w.plan(wants(on(0, "7g"))))
    assert (Outcome.ROLLED_BACK, "resetting GPU 0") == (result.outcome, result.message.split(":")[0])
    assert not w.machine.card(0).mig_pending


def test_foreign_wish_is_taken_back(world: Make) -> None:
    """A mode that somebody asked for and that never became current is set to what the layout wants."""
    w = world(A100)
    w.machine.hold(0)
    w.machine.set_mig(0, enabled=False)
    w.machine.free(0)
    plan = w.plan(wants(on(0, "7g")))
    assert Outcome.APPLIED is w.apply(plan).outcome
    assert w.machine.card(0).mig_pending


def test_plan_by_hand_for_a_card_of_an_unplanned_group(world: Make) -> None:
    """A plan that does not know the reset group still rebuilds what the reset takes along."""
    w, plan, wanted = group(world)
    alone = CardPlan(plan.cards[0].card, 0, plan.cards[0].target, plan.cards[0].difference)
    assert Outcome.APPLIED is w.apply(Plan((alone,), Impact.NONE)).outcome
    assert wanted == w.shape()


def test_holders_of_one_card_only(world: Make) -> None:
    """Only the cards concerned are asked for holders."""
    w, layout = recut(world)
    asked: set[str] = set()

    def asks(session: GpuSession, uuids: Collection[str]) -> Holders:
        asked.update(uuids)
        return process_holders(session, uuids)

    w.apply(w.plan(layout), means=replace(w.means(), holders=asks))
    assert {w.cards()[0].uuid} == asked


def test_difference_is_empty_afterwards(world: Make) -> None:
    """What apply calls done is what the planner calls equal, on cards with swapped halves too."""
    w = world(A100, half_swapped=[0])
    plan = w.plan(wants(on(0, "3g", "1g*4")))
    assert Outcome.APPLIED is w.apply(plan).outcome
    card: Card = w.cards()[0]
    target = plan.cards[0].target
    assert target is not None
    assert difference(card, target).empty


def test_processes_are_called_by_name(world: Make) -> None:
    """A process that can be looked up is called by pid and name, another by its pid."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4)
    for pid in (os.getpid(), 4_190_000):
        w.machine.hold(0, start=4, pid=pid)
    with w.process() as gpus, gpus.session() as session:
        uuid = session.cards()[0].uuid
        (who,) = process_holders(session, [uuid]).values()
    name = Path("/proc/self/comm").read_text().strip()
    assert {Holder(f"pid {os.getpid()} ({name})"), Holder("pid 4190000")} == who


def test_defaults(world: Make) -> None:
    """Without anything said, holders are NVML's processes, nobody hears of progress, and times are UTC."""
    w = world(A100)
    assert Outcome.APPLIED is w.apply(w.plan(wants(on(0, "7g"))), means=DEFAULT_MEANS).outcome
    assert DEFAULT_MEANS.now().endswith("+00:00")


@pytest.mark.parametrize("compute", [0, None])
def test_holder_of_a_compute_instance(world: Make, compute: int | None) -> None:
    """A compute instance of a kept GPU instance is held by its own users and by those known by GPU instance only."""
    w, layout = recut(world)
    plan = w.plan(layout)
    kept = w.cards()[0].instances[2]

    def holds(_: GpuSession, uuids: Collection[str]) -> Holders:
        return {SliceKey(uuid, kept.id, compute): frozenset({Holder("ns/pod")}) for uuid in uuids}

    result = w.apply(plan, means=replace(w.means(), holders=holds))
    assert "destroying compute instance 3c at 0 of 3g.40gb at 4 on GPU 0: used by ns/pod" == result.message


def test_holder_of_a_gpu_instance_that_is_empty_already(world: Make) -> None:
    """Between the last compute instance and the GPU instance is another look."""
    w = world(A100)
    w.machine.add_instance(0, "1g", start=0)
    doomed = w.cards()[0].instances[0].id
    heard: list[Action] = []

    def holds(_: GpuSession, uuids: Collection[str]) -> Holders:
        late = Action.DESTROY_INSTANCE in heard
        return {SliceKey(uuid, doomed): frozenset({Holder("ns/pod")}) for uuid in uuids if late}

    before = w.births(0)
    plan = w.plan(wants(on(0, "7g")))
    result = w.apply(plan, means=replace(w.means(progress=lambda e: heard.append(e.action)), holders=holds))
    assert (Outcome.ROLLED_BACK, "destroying GPU instance 1g.10gb at 0 on GPU 0: used by ns/pod") == (
        result.outcome,
        result.message,
    )
    assert [] == w.slept
    assert before == w.births(0)
    assert [["1g.10gb@0[1c@0]"]] == w.shape()


@pytest.mark.parametrize("widths", [(), (1,)])
def test_unplanned_instance_right_before_the_first_call(world: Make, widths: tuple[int, ...]) -> None:
    """What somebody makes after the look at the cards, with or without compute instances, stops the change."""
    w, layout = recut(world)
    plan = w.plan(layout)

    def look() -> str:
        w.machine.remove_instance(0, start=4)
        w.machine.add_instance(0, "1g", start=6, compute_widths=widths)
        w.machine.remove_instance(0, start=2)
        return ""

    result = w.apply(plan, last_look=look)
    assert (Outcome.REFUSED, "Unplanned", ()) == (result.outcome, result.reason, result.calls)
    assert "destroying GPU instance 1g.10gb at 6 on GPU 0" in result.message
    assert 6 in [i.start for i in w.machine.card(0).instances]
    assert w.journal.read().intent is None


def test_unplanned_compute_instance_right_before_the_first_call(world: Make) -> None:
    """So does a compute instance that somebody makes in a GPU instance that stays."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4, compute_widths=())
    plan = w.plan(wants(on(0, "3g/2c")))

    def look() -> str:
        with w.process() as gpus, gpus.session() as session:
            uuid = session.cards()[0].uuid
            session.create_compute_instance(uuid, 2, Placement(2, 1))
        return ""

    with w.process() as gpus:
        library = pynvml.nvmlLib

        def elsewhere() -> str:
            pynvml.nvmlLib = None
            try:
                return look()
            finally:
                pynvml.nvmlLib = library
                pynvml._nvmlGetFunctionPointer_cache.clear()

        result = apply(gpus, plan, w.journal, w.means(), last_look=elsewhere)
    assert (Outcome.REFUSED, "Unplanned", ()) == (result.outcome, result.reason, result.calls)
    assert "destroying compute instance 1c at 2 of 3g.40gb at 4 on GPU 0" in result.message
    assert [["3g.40gb@4[1c@2]"]] == w.shape()
