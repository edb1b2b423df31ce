"""With all rules the protocol is safe and live in every state of bounded searches."""

from __future__ import annotations

from functools import cache

import pytest

from tests.protocol.explorer import Finding, explore
from tests.protocol.shared import Scope
from tests.protocol.state import Fault, Violation

SEARCHES = {
    "one edit, any one fault": Scope(faults=1),
    "one edit, pods, a pause": Scope(pods=True, pause=True),
    "edits that come back, pods": Scope(edits=("B", "A"), pods=True),
    "one edit, a person twice": Scope(faults=2, kinds=frozenset({Fault.CORDONED, Fault.UNCORDONED})),
    "one edit, pods, a PDB": Scope(faults=1, kinds=frozenset({Fault.PDB_CLOSES}), pods=True),
}
KNOWN = {
    "one edit, any one fault": (487_702, 2_469_494),
    "one edit, pods, a pause": (42_567, 241_071),
}
"""Sizes that an independent implementation of the same model found."""


@cache
def found(name: str) -> Finding:
    return explore(SEARCHES[name])


@pytest.mark.parametrize("name", SEARCHES)
def test_the_protocol_is_safe_and_live(name: str) -> None:
    """No state breaks a promise, and from every state a good one can be reached."""
    finding = found(name)
    assert Violation.NONE is finding.violation, str(finding)
    assert KNOWN.get(name, (finding.states, finding.transitions)) == (finding.states, finding.transitions)


def test_the_searches_draw_every_fault() -> None:
    """A fault that never happens is survived by any protocol."""
    labels = found("one edit, any one fault").labels | found("one edit, pods, a PDB").labels
    assert [] == [kind for kind in Fault if not any(label.startswith(kind.value) for label in labels)]
