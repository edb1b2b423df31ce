"""What becomes of an intent that a crash left."""

from __future__ import annotations

import pytest

from mig_manager.gpu.journal import Intent
from mig_manager.gpu.port import DriverNotReadyError
from mig_manager.gpu.result import Outcome
from mig_manager.planner.target import CardTarget, target_of
from mig_manager.sim.model.codes import NvmlCode
from tests.gpu.worlds import A100, H100, Make, World, on, wants


def begun(make: Make, *models: str) -> World:
    """Every card goes from a 3g at 4 to two 2g at 0 and 4; nothing has been done yet."""
    w = make(*(models or (A100,)))
    origin, to = {}, {}
    for gpu, before in enumerate(w.cards()):
        w.machine.add_instance(gpu, "3g", start=4)
        origin[before.uuid] = target_of(w.cards()[gpu])
        target = w.plan(wants(on(gpu, "2g*2"))).cards[gpu].target
        assert target is not None
        to[before.uuid] = target
    w.journal.begin(Intent("41", "2026-01-02T03:04:05+00:00", to, origin))
    return w


def by_hand(w: World, gpu: int = 0) -> None:
    """Do the destroying half of the change."""
    w.machine.remove_instance(gpu, start=4)


def target(w: World, gpu: int = 0) -> CardTarget:
    """What the intent wants of a card."""
    intent = w.journal.read().intent
    assert intent is not None
    return intent.to[w.cards()[gpu].uuid]


def test_no_intent(world: Make) -> None:
    """Without an intent there is nothing to recover, and no NVML is needed for that."""
    w = world(A100)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    assert w.recover() is None


def test_nothing_destroyed_yet(world: Make) -> None:
    """Cards that are as before: the intent is dropped, nothing else happens."""
    w = begun(world)
    before = w.births(0)
    result = w.recover()
    assert result is not None
    assert (Outcome.NOTHING_TO_DO, ()) == (result.outcome, result.calls)
    assert (before, None, {}) == (w.births(0), w.journal.read().intent, w.journal.read().last_good)


def test_everything_done(world: Make) -> None:
    """Cards that are as wanted: the intent is closed and the layout is the last good one."""
    w = begun(world)
    wanted = target(w)
    by_hand(w)
    for wish in wanted.slices:
        w.machine.add_instance(0, wish.profile_id, start=wish.placement.start)
    result = w.recover()
    assert result is not None
    assert (Outcome.APPLIED, ()) == (result.outcome, result.calls)
    assert {wanted.gpu_uuid: wanted} == w.journal.read().last_good
    assert w.journal.read().intent is None


def test_halfway_is_finished(world: Make) -> None:
    """In between the change is finished."""
    w = begun(world)
    wanted = target(w)
    by_hand(w)
    result = w.recover()
    assert result is not None
    assert Outcome.APPLIED is result.outcome
    assert wanted == target_of(w.cards()[0])


def test_halfway_is_rolled_back(world: Make) -> None:
    """When it cannot be finished, the card goes back."""
    w = begun(world)
    by_hand(w)
    w.machine.inject("nvmlDeviceCreateGpuInstanceWithPlacement", code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2])
    result = w.recover()
    assert result is not None
    assert Outcome.ROLLED_BACK is result.outcome
    assert [["3g.40gb@4[3c@0]"]] == w.shape()
    assert w.journal.read().intent is None


def test_neither_way_works(world: Make) -> None:
    """When both fail the intent is closed and no layout is good; a new run starts from what is there."""
    w = begun(world)
    by_hand(w)
    w.machine.inject("nvmlDeviceCreateGpuInstanceWithPlacement", code=NvmlCode.INSUFFICIENT_RESOURCES)
    result = w.recover()
    assert result is not None
    assert Outcome.FAILED is result.outcome
    assert (None, {}) == (w.journal.read().intent, w.journal.read().last_good)
    w.machine.clear_faults()
    assert w.apply(w.plan(wants(on(0, "2g*2")))).ok


def test_rebooted_in_mid_flight(world: Make) -> None:
    """A reboot that took the mode and the slices away is repaired by finishing."""
    w = begun(world, H100)
    wanted = target(w)
    w.machine.reboot()
    result = w.recover()
    assert result is not None
    assert Outcome.APPLIED is result.outcome
    assert wanted == target_of(w.cards()[0])


def test_vanished_card(world: Make) -> None:
    """A card that is gone is named, and the others are healed all the same."""
    w = begun(world, A100, A100)
    wanted = target(w, 1)
    by_hand(w, 1)
    uuid = w.machine.remove_card(0).uuid
    result = w.recover()
    assert result is not None
    assert (Outcome.APPLIED, "GpuGone") == (result.outcome, result.reason)
    assert f"finishing intent 41: GPU {uuid} is gone; others are well" == result.message
    assert wanted == target_of(w.cards()[0])
    assert {wanted.gpu_uuid: wanted} == w.journal.read().last_good


def test_vanished_card_and_a_failure(world: Make) -> None:
    """A failure on the others keeps its own reason."""
    w = begun(world, A100, A100)
    by_hand(w, 1)
    w.machine.remove_card(0)
    w.machine.inject("nvmlDeviceCreateGpuInstanceWithPlacement", code=NvmlCode.INSUFFICIENT_RESOURCES)
    result = w.recover()
    assert result is not None
    assert (Outcome.FAILED, "RollbackFailed") == (result.outcome, result.reason)
    assert "is gone; creating GPU instance" in result.message


def test_foreign_instance_is_not_destroyed(world: Make) -> None:
    """What somebody made meanwhile and no side of the intent names is left alone, and the intent is closed."""
    w = begun(world)
    by_hand(w)
    w.machine.add_instance(0, "1g", start=6)
    result = w.recover()
    assert result is not None
    assert Outcome.FAILED is result.outcome
    assert "1g.10gb at 6 on GPU 0: it is not part of the plan" in result.message
    assert "1g.10gb@6[1c@0]" in w.shape()[0]


def test_held_slice_is_not_destroyed(world: Make) -> None:
    """A slice that somebody uses by now is not destroyed to finish; the card goes back around it."""
    w = begun(world)
    w.machine.add_instance(0, "2g", start=0)  # the creating half began
    w.machine.hold(0, start=4)
    before = w.births(0)
    result = w.recover()
    assert result is not None
    assert Outcome.ROLLED_BACK is result.outcome
    assert [["3g.40gb@4[3c@0]"]] == w.shape()
    assert before.keys() & w.births(0).keys()


def test_driver_away(world: Make) -> None:
    """While NVML cannot be opened the intent stays open."""
    w = begun(world)
    by_hand(w)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED, calls=[1])
    with pytest.raises(DriverNotReadyError, match="initialising NVML: Driver Not Loaded"):
        w.recover()
    assert w.journal.read().intent is not None


def test_apply_recovers_first(world: Make) -> None:
    """A new plan starts from what the finished intent left, and tells of its calls too."""
    w = begun(world)
    by_hand(w)
    layout = wants(on(0, "2g*2"))
    result = w.apply(w.plan(layout))
    assert Outcome.APPLIED is result.outcome
    assert 4 == len(result.calls)
    assert ({}, None) != (w.journal.read().last_good, w.journal.read().intent)
    assert Outcome.NOTHING_TO_DO is w.apply(w.plan(layout)).outcome
