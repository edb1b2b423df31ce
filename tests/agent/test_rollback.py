"""A change that fails on the cards, and what becomes of them."""

from __future__ import annotations

from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import layout, on
from tests.agent.moments import killed_at, once
from tests.agent.process import Process
from tests.agent.stories import CREATE, Make, granted
from tests.agent.worlds import A100


def test_failed_creation_is_rolled_back(world: Make) -> None:
    """A layout that cannot be created leaves the former one, the node open, and another attempt for later."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    before = w.shape()
    ended = w.settle(6)
    assert "apply: ApplyFailed" in ended
    assert before == w.shape()
    state = w.grant_status
    assert ("Released", "RolledBack", "ApplyFailed") == (state["state"], state["result"], state["reason"])
    assert "insufficient resources" in state["message"].lower()
    assert ("True", "ApplyFailed") == w.condition("Degraded")
    assert "failed" == w.labels["state"]
    w.assert_clean()


def test_rollback_never_leaves_the_cards_for_somebody_to_look_at(world: Make) -> None:
    """With rollback Never a failed change stays as it is, the node says so, and it is tried again later."""
    w = granted(world, rollback="Never")
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    before = w.shape()
    w.settle(6)
    state = w.grant_status
    assert ("Released", "Failed", "ApplyFailed") == (state["state"], state["result"], state["reason"])
    assert before != w.shape()
    assert w.status["slicesMissing"]
    w.assert_clean()
    w.clock.sleep(60)
    assert "release: Done" == w.settle()[-1]


def test_failed_rollback_is_tried_again_without_a_slot(world: Make) -> None:
    """When going back fails too nothing is promised, and the standing grant repairs the node when its time has come."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    ended = w.settle(2)
    assert "apply: RollbackFailed" == ended[-1]
    state = w.grant_status
    assert ("Released", "Failed", "RollbackFailed") == (state["state"], state["result"], state["reason"])
    assert w.status["slicesMissing"]
    assert {} == w.journal.last_good
    w.assert_clean()
    w.machine.clear_faults()
    assert not any("Done" in e for e in w.settle(2))
    w.clock.sleep(60)
    assert "release: Done" == w.settle()[-1]
    assert ("True", "Ready") == w.ready


def test_failed_rollback_is_repaired_under_a_new_grant_without_a_slot(world: Make) -> None:
    """The node stays unavailable anyway until something is promised again, also when the next grant is taken up."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    w.settle(5)
    w.machine.clear_faults()
    w.grant(slot=False)
    ended = w.settle()
    assert "stand_down: NodeCameBack" not in ended
    assert "release: Done" == ended[-1]
    assert not w.status["slicesMissing"]
    w.assert_clean()


def test_half_done_first_layout_that_is_taken_back_leaves_no_lack(world: Make) -> None:
    """A node that never had a layout lacks slices while it is half done, and not afterwards: it needs a slot again."""
    w = granted(world)
    w.pod("late", "nvidia.com/mig-3g.40gb")
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    killed_at(w, "nvmlGpuInstanceDestroy done")
    w.kubelet_down = True
    w.run_pass()
    assert w.status["slicesMissing"]
    w.kubelet_down = False
    w.settle(2)
    assert ("Released", "RolledBack") == (w.grant_status["state"], w.grant_status["result"])
    assert not w.status["slicesMissing"]
    w.grant(slot=False)
    assert "take_up: NodeAvailable" == w.settle(1)[-1]
    w.assert_clean()


def test_card_whose_reset_would_hurt_keeps_no_other_from_going_back(world: Make) -> None:
    """Somebody opens a card whose mode goes back by a reset: the other card has its slices back all the same."""
    w = world(A100, A100)
    with w.machine.change() as state:
        state.cards[0].mig_current = state.cards[0].mig_pending = False
    w.machine.add_instance(1, "7g", start=0)
    w.tick()
    w.want(layout(on(0, "7g"), on(1, "3g*2")))
    w.run_pass()
    w.grant()
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2])

    def going_back(process: Process) -> bool:
        return process.names.count("nvmlDeviceSetMigMode") == 2

    once(w, going_back, lambda w: w.machine.hold(0, pid=4_190_000), called="going back")
    assert "7g.80gb@0" == w.shape()[1]
    assert w.grant_status["reason"] == "RollbackFailed"


def test_who_wants_no_way_back_gets_none_after_a_kill_either(world: Make) -> None:
    """The killed agent had changed something; that the first call of the next one fails takes nothing of it back."""
    w = granted(world, rollback="Never")
    killed_at(w, "nvmlGpuInstanceDestroy done")
    left = w.shape()
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    w.process = Process()
    w.run_pass()
    assert ("Failed", left) == (w.grant_status["result"], w.shape())
