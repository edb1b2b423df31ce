"""Cards that vanish, are replaced or added: never is another card changed because of it, and it is always said."""

from __future__ import annotations

import pytest

from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every, layout, on
from tests.agent.moments import killed_at, ready_message
from tests.agent.stories import Make, advance
from tests.agent.worlds import A100, H100, World

BY_INDEX = layout(on(0, "7g"), on(1, "3g*2"))


def three(make: Make, model: str = A100) -> World:
    """Three cards, of which the first two are cut by their index; all is well."""
    w = make(model, model, model)
    w.want(BY_INDEX)
    w.settle(20, control=True)
    assert ("True", "Ready") == w.ready
    return w


def accept(w: World) -> None:
    """A person deletes the MIGNode, and the controller makes it anew."""
    wanted = BY_INDEX
    w.admin.delete(MIG_NODE, "n1")
    w.want(wanted)
    w.run_pass()


@pytest.mark.parametrize("rounds", [1, 3])
def test_card_that_vanishes_moves_nothing(world: Make, rounds: int) -> None:
    """What was GPU 1 is GPU 0 now; it keeps its slices, and the node says which card is gone."""
    w = three(world)
    gone = w.machine.card(0)
    births = list(w.slices())[1:]
    w.machine.remove_card(0)
    w.settle(rounds, control=True)
    assert ("False", "GpuMissing") == w.ready
    assert ("True", "GpuMissing") == w.condition("Degraded")
    assert f"GPU {gone.uuid} at {gone.bus_id} is gone" in ready_message(w)
    assert "kubectl delete mignode n1" in ready_message(w)
    assert births == list(w.slices())
    # It is promised still; but the rest of the fleet need not wait for it, so the controller does not count it.
    assert (gone.uuid in w.journal.last_good, w.status["slicesMissing"]) == (True, False)
    assert "degraded" == w.labels["state"]
    w.assert_clean()


def test_card_that_comes_back_is_as_before(world: Make) -> None:
    """The same card again needs nobody's decision."""
    w = three(world)
    gone = w.machine.remove_card(2)
    w.settle(2, control=True)
    assert ("False", "GpuMissing") == w.ready
    with w.machine.change() as state:
        state.cards.append(gone)
    w.settle(5, control=True)
    assert ("True", "Ready") == w.ready


def test_what_the_others_were_promised_is_repaired_meanwhile(world: Make) -> None:
    """A card has not survived the reboot, the others have lost their slices by it: those come back, at once."""
    w = three(world, H100)
    gone = w.machine.remove_card(2)
    w.reboot()
    ended = w.settle(20)
    assert "release: GpuMissing" in ended
    assert ["7g.80gb@0", "3g.40gb@0 3g.40gb@4"] == w.shape()
    assert ("False", "GpuMissing") == w.ready
    assert gone.uuid in ready_message(w)
    w.assert_clean()


def test_missing_promise_stays_over_a_repair(world: Make) -> None:
    """The last good layout still names what was promised on the card that is gone."""
    w = world(A100, A100)
    w.want(every("7g"))
    w.settle(20, control=True)
    gone = w.machine.remove_card(1)
    w.machine.remove_instance(0, start=0)
    w.kubelet_down = True
    w.run_pass()
    assert w.status["slicesMissing"]
    w.kubelet_down = False
    w.settle(20)
    assert ["7g.80gb@0"] == w.shape()
    assert gone.uuid in w.journal.last_good
    assert not w.status["slicesMissing"]
    assert "take_up: GpuMissing" == w.settle(1, control=True)[-1]


def test_replaced_card_waits_for_a_person(world: Make) -> None:
    """A new card in the old place is named and left alone until somebody accepts it; then it is cut."""
    w = three(world)
    old = w.machine.card(1)
    new = w.machine.replace_card(1)
    w.settle(3, control=True)
    assert ("False", "InventoryChanged") == w.ready
    assert f"GPU {old.uuid} at {old.bus_id} is gone, GPU {new.uuid} is new" in ready_message(w)
    assert "InventoryChanged" == w.status["plan"]["reason"]
    assert [] == w.machine.card(1).instances
    accept(w)
    with w.machine.change() as state:
        state.cards[1].mig_current = state.cards[1].mig_pending = True
    w.settle(20, control=True)
    assert ("True", "Ready") == w.ready
    assert "3g.40gb@0 3g.40gb@4" == w.shape()[1]
    w.run_pass()
    assert old.uuid not in w.journal.last_good


def test_another_layout_is_a_decision(world: Make) -> None:
    """Whoever edits the profile decides about the cards that are there."""
    w = three(world)
    w.machine.remove_card(2)
    w.settle(2, control=True)
    w.want(layout(on(0, "3g*2"), on(1, "7g")))
    w.settle(20, control=True)
    assert ("True", "Ready") == w.ready
    assert ["3g.40gb@0 3g.40gb@4", "7g.80gb@0"] == w.shape()


def test_added_card_is_cut_like_the_others(world: Make) -> None:
    """A layout for every card is a layout for the new one too."""
    w = world(A100)
    w.want(every("7g"))
    w.settle(20, control=True)
    birth = next(iter(w.slices()))
    add(w, at_the_end=True)
    w.settle(20, control=True)
    assert ["7g.80gb@0", "7g.80gb@0"] == w.shape()
    assert birth in list(w.slices())
    assert ("True", "Ready") == w.ready


def add(w: World, *, at_the_end: bool) -> None:
    """Another card with MIG on, before or after those that are there."""
    first = w.machine.card(0)
    w.machine.replace_card(0)
    with w.machine.change() as state:
        new = state.cards[0]
        new.mig_current = new.mig_pending = True
        new.bus_id = "00000000:F0:00.0" if at_the_end else "00000000:01:00.0"
        state.cards[0:1] = [first] if at_the_end else [new, first]
        state.cards += [new] if at_the_end else []


def test_added_card_that_shifts_the_others_changes_nothing(world: Make) -> None:
    """By index the layout now says something else of the cards that were there: that was nobody's wish."""
    w = world(A100, A100)
    w.want(BY_INDEX)
    w.settle(20, control=True)
    add(w, at_the_end=False)
    births = list(w.slices())
    w.settle(3, control=True)
    assert ("False", "InventoryChanged") == w.ready
    assert f"GPU {w.machine.card(0).uuid} is new" in ready_message(w)
    assert births == list(w.slices())
    w.assert_clean()


def test_count_does_not_move_to_another_card(world: Make) -> None:
    """The card that a counted entry chose is gone: another one that nobody asked for is not taken instead."""
    w = world(A100, A100, A100)
    w.want(layout(GpuEntry((SliceRequest(SliceName.parse("7g")),), count=1)))
    w.settle(20, control=True)
    taken = next(i for i, shape in enumerate(w.shape()) if shape)
    w.machine.remove_card(taken)
    w.settle(3, control=True)
    assert ("False", "GpuMissing") == w.ready
    assert ["", ""] == w.shape()


def test_card_that_vanishes_before_anything_was_made(world: Make) -> None:
    """Nothing is promised yet, so nothing says that the layout still means the same of the others."""
    w = world(A100, A100)
    w.want(Layout((GpuEntry((SliceRequest(SliceName.parse("7g")),)),)))
    w.run_pass()
    w.grant()
    w.machine.remove_card(1)
    assert "take_up: GpuMissing" == w.settle(2)[-1]
    assert [""] == w.shape()
    accept(w)
    w.assert_clean()


def test_card_that_vanishes_in_mid_change(world: Make) -> None:
    """What was begun on the others is finished, and the node let go with the reason."""
    w = world(A100, A100)
    for gpu in (0, 1):
        w.machine.add_instance(gpu, "2g", start=0)
    w.tick()
    w.want(every("7g"))
    w.run_pass()
    w.grant()
    killed_at(w, "nvmlGpuInstanceDestroy done", lambda w: w.machine.remove_card(1))
    ended = w.settle(8)
    assert "Released" == w.grant_status["state"]
    assert "GpuMissing" in ended[-1]
    assert ("False", "GpuMissing") == w.ready
    assert ["7g.80gb@0"] == w.shape()
    w.assert_clean()


def test_a_driver_that_is_away_is_no_missing_card(world: Make) -> None:
    """While the cards cannot be read nothing is concluded from it."""
    w = three(world)
    inventory = w.journal.inventory
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    w.settle(2)
    assert ("False", "DriverNotReady") == w.ready
    assert inventory == w.journal.inventory
    w.machine.clear_faults()
    w.settle(2)
    assert ("True", "Ready") == w.ready


def test_card_that_vanishes_while_held(world: Make) -> None:
    """The hold ends before anything is destroyed."""
    w = three(world)
    w.want(layout(on(0, "3g*2"), on(1, "7g")))
    w.run_pass()
    w.pod("goes", "nvidia.com/mig-7g.80gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    w.grant()
    advance(w, "drain")
    w.machine.remove_card(0)
    assert "stand_down: GpuMissing" == w.settle(1)[-1]
    assert ("Released", "Aborted", "GpuMissing") == (
        w.grant_status["state"],
        w.grant_status["result"],
        w.grant_status["reason"],
    )
    w.assert_clean()
