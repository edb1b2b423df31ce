"""What it takes from a card as it is to a target."""

from __future__ import annotations

from dataclasses import replace

from mig_manager.geometry.profiles import Placement
from mig_manager.planner.target import CardTarget, difference, target_of
from tests.planner.machines import make_card, with_slices

CARD = with_slices(make_card(), "3g@0/1c,1c", "2g@4")


def test_a_card_is_its_own_target() -> None:
    """Nothing is to be done, everything is kept with the compute instances it has."""
    change = difference(CARD, target_of(CARD))
    assert change.empty
    assert [(Placement(0, 1), Placement(1, 1)), (Placement(0, 2),)] == [kept.compute for kept in change.keep]


def test_a_reset_rebuilds_everything_without_a_change_of_mode() -> None:
    """Nothing survives the reset, and the mode is the current one already."""
    change = difference(CARD, target_of(CARD), reset=True)
    assert (CARD.instances, target_of(CARD).slices) == (change.destroy, change.create)
    assert (None, True) == (change.set_mode, change.becomes_current)


def test_without_mig_nothing_is_created() -> None:
    """A target without MIG has no slices, whatever it names."""
    off = difference(CARD, replace(target_of(CARD), mig=False))
    assert (CARD.instances, (), False, False) == (off.destroy, off.create, off.set_mode, off.becomes_current)
    assert difference(make_card(mig=False), CardTarget("GPU-0", mig=False)).empty
