"""Changes that take a reboot of the machine: the intent stays open over it, and everybody on any card is in the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.state import Card
from mig_manager.gpu.apply import Means
from mig_manager.gpu.holders import HeldError, process_holders
from mig_manager.gpu.parts import Action, Event
from mig_manager.gpu.reset import RebootingError
from mig_manager.gpu.result import Outcome
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import Impact, Plan
from tests.gpu.worlds import A100, H100, KilledError, Make, World, on, wants

ON_BOTH = [["7g.80gb@0[7c@0]"], ["3g.40gb@4[3c@0]"]]


def machine(make: Make) -> tuple[World, Plan]:
    """A card whose mode changes by a reboot only, beside one with a slice that the layout leaves alone."""
    w = make(A100, H100)
    w.machine.set_mig(0, enabled=False)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    w.machine.add_instance(1, "3g", start=4)
    cards = [stuck(card) if card.index == 0 else card for card in w.cards()]
    plan = plan_node(cards, {}, wants(on(0, "7g")))
    assert Impact.REBOOT_NODE is plan.impact
    return w, plan


def stuck(card: Card) -> Card:
    """What is known of it."""
    return replace(card, mode_change=ModeChange.REBOOT)


def means(w: World, boot_id: str = "", **changes: object) -> Means:
    """Means that reboot, in the sense that the machine is about to go down."""

    def reboot() -> None:
        raise RebootingError

    return replace(w.means(), reboot=reboot, boot_id=boot_id or w.machine.read().boot_id, **changes)  # type: ignore[arg-type]


def asked(w: World, plan: Plan) -> None:
    """The change has begun, and the reboot was asked for."""
    with pytest.raises(RebootingError):
        w.apply(plan, means=means(w))


def test_intent_stays_open_over_the_reboot(world: Make) -> None:
    """It names the boot, and every card, because each loses what it has; on the next boot it is finished."""
    w, plan = machine(world)
    boot_id = w.machine.read().boot_id
    asked(w, plan)
    intent = w.journal.read().intent
    assert intent is not None
    assert (True, boot_id, {c.uuid for c in w.cards()}) == (intent.reboot, intent.boot_id, set(intent.to))
    assert w.machine.card(0).mig_pending
    asked_again = [0]

    def reboot() -> None:
        asked_again[0] += 1
        raise RebootingError

    with pytest.raises(RebootingError):
        w.recover(means=replace(means(w), reboot=reboot))
    assert [1] == asked_again
    w.machine.reboot()
    result = w.recover(means=means(w))
    assert result is not None
    assert Outcome.APPLIED is result.outcome
    assert ON_BOTH == w.shape()
    assert w.journal.read().intent is None


def test_reboot_that_did_not_help_is_taken_back(world: Make) -> None:
    """Not asked for a second time: back as it was, with what was learnt about the present boot."""
    w, plan = machine(world)
    asked(w, plan)
    w.machine.remove_instance(1, start=4)
    result = w.recover(means=means(w, "another-boot"))
    assert result is not None
    assert (Outcome.ROLLED_BACK, "RebootDidNotHelp") == (result.outcome, result.reason)
    found = w.journal.read().stuck
    assert found is not None
    assert ("another-boot", "reboot", {w.cards()[0].uuid}) == (found.boot_id, found.means, set(found.cards))
    assert [["off"], ON_BOTH[1]] == w.shape()
    assert not w.machine.card(0).mig_pending


def test_reboot_that_changed_nothing_was_in_vain(world: Make) -> None:
    """Not even the wish is left on the next boot: that is no change that never began, or it would begin anew."""
    w, plan = machine(world)
    asked(w, plan)
    w.machine.set_mig(0, enabled=False)
    result = w.recover(means=means(w, "another-boot"))
    assert result is not None
    assert (Outcome.ROLLED_BACK, "RebootDidNotHelp") == (result.outcome, result.reason)
    assert "changing the MIG mode of GPU 0: a reboot changed nothing" == result.message
    found = w.journal.read().stuck
    assert found is not None
    assert ("reboot", {w.cards()[0].uuid}) == (found.means, set(found.cards))


def test_card_that_was_to_change_is_gone_after_the_reboot(world: Make) -> None:
    """The reboot was not in vain for the others, so nothing is learnt from it, and the card is named."""
    w, plan = machine(world)
    asked(w, plan)
    gone = w.cards()[0].uuid
    w.machine.remove_card(0)
    result = w.recover(means=means(w, "another-boot"))
    assert result is not None
    assert (Outcome.NOTHING_TO_DO, "GpuGone") == (result.outcome, result.reason)
    assert gone in result.message
    assert w.journal.read().stuck is None
    assert w.journal.read().intent is None


def test_power_cut_before_the_reboot_was_asked_for(world: Make) -> None:
    """It is another boot, but not the one that was to help: the change never began, and may begin anew."""
    w = world(A100, mig=False)
    plan = plan_node([stuck(card) for card in w.cards()], {}, wants(on(0, "7g")))

    def dies(_: Event) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        w.apply(plan, means=replace(means(w), progress=dies))
    w.machine.reboot()
    result = w.recover(means=means(w))
    assert result is not None
    assert (Outcome.NOTHING_TO_DO, None) == (result.outcome, w.journal.read().stuck)


def test_user_of_any_card_is_in_the_way(world: Make) -> None:
    """A reboot ends also what runs on a card that the layout leaves alone: refused before anything is written."""
    w, plan = machine(world)
    w.machine.hold(1, start=4, pid=4_190_000)
    result = w.apply(plan, means=means(w))
    assert (Outcome.REFUSED, "InUse") == (result.outcome, result.reason)
    assert not w.journal.path.exists()
    assert not w.machine.card(0).mig_pending


def test_user_who_comes_right_before_the_reboot(world: Make) -> None:
    """Whoever comes on any card after the mode was asked for keeps the machine up, and the wish is taken back."""
    w, plan = machine(world)

    def hears(event: Event) -> None:
        if event.action is Action.ENABLE:
            w.machine.hold(1, start=4, pid=4_190_000)

    result = w.apply(plan, means=replace(means(w), progress=hears))
    assert (Outcome.ROLLED_BACK, "rebooting the node for GPU 1: used by pid 4190000") == (
        result.outcome,
        result.message,
    )
    assert not w.machine.card(0).mig_pending


def test_slice_that_somebody_makes_right_before_the_reboot(world: Make) -> None:
    """What no side of the change knows would be lost for good, so the machine stays up."""
    w, plan = machine(world)

    def hears(event: Event) -> None:
        if event.action is Action.ENABLE:
            w.machine.add_instance(1, "1g", start=0)

    result = w.apply(plan, means=replace(means(w), progress=hears))
    assert Outcome.FAILED is result.outcome
    assert "rebooting the node for GPU 1: it is not part of the plan" in result.message
    assert 2 == len(w.machine.card(1).instances)


def test_reboot_that_is_refused(world: Make) -> None:
    """Whoever reboots may say no; then all is as before, and it may be tried again."""
    w, plan = machine(world)
    holders = process_holders

    def no() -> None:
        raise HeldError("rebooting the node", ())

    result = w.apply(plan, means=replace(means(w, holders=holders), reboot=no))
    assert (Outcome.ROLLED_BACK, "ApplyFailed") == (result.outcome, result.reason)
    assert w.journal.read().stuck is None
    assert not w.machine.card(0).mig_pending


def test_nothing_is_learnt_on_an_unknown_boot(world: Make) -> None:
    """A run that does not know its boot says what it takes, and writes nothing down about it."""
    w, plan = machine(world)
    result = w.apply(replace(plan, impact=Impact.FREE_SLICES))
    assert (Outcome.ROLLED_BACK, "RebootRequired") == (result.outcome, result.reason)
    assert w.journal.read().stuck is None
