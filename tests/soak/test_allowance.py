"""How many nodes may be out while maxUnavailable is edited."""

from __future__ import annotations

from tests.soak.allowance import Allowance


def test_rises_at_once() -> None:
    """From the version of the edit on."""
    allowance = Allowance(1)
    allowance.edit(10, 3)
    assert [1, 1, 3, 3] == [allowance.at(version) for version in (1, 9, 10, 99)]


def test_falls_at_rest() -> None:
    """Grants that were given before are still carried out; when all is at rest there are none."""
    allowance = Allowance(4)
    allowance.edit(10, 1)
    allowance.edit(20, 2)
    assert 4 == allowance.at(25)
    allowance.rest(30)
    assert [4, 2, 2] == [allowance.at(version) for version in (29, 30, 99)]


def test_rises_above_what_is_left() -> None:
    """A rise counts against the highest limit that grants may stem from."""
    allowance = Allowance(3)
    allowance.edit(10, 1)
    allowance.edit(20, 2)
    allowance.edit(30, 4)
    assert [3, 4] == [allowance.at(version) for version in (20, 30)]
    allowance.rest(40)
    assert 4 == allowance.at(40)
