"""The controller of the model: what it may write to one MIGNode, given its copy of the MIGConfig."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from tests.protocol.rules import Rules
from tests.protocol.state import Layout, NodeState, Violation

Need = Literal["", "slot", "unavailable"]
"""What a write rests on beside the MIGNode: that a slot is free, or that the node is unavailable anyway."""


class Order(NamedTuple):
    """One write. ``grants`` says that it makes a new grant."""

    label: str
    after: NodeState
    need: Need = ""
    fair: bool = True
    violation: Violation = Violation.NONE
    grants: bool = False


def controller(n: NodeState, layout: Layout, *, paused: bool, deleted: bool, rules: Rules) -> Iterator[Order]:
    """Every write that the rules allow in this state."""
    if not n.exists:
        return
    if deleted:
        yield from _farewell(n)
        return
    if n.desired != layout:
        yield _write(n, "write desired", desired=layout)
    if paused:
        if n.standing and (not n.answered or n.state != "Released"):
            yield _write(n, "revoke", revoked=True)
    elif n.desired == layout:
        yield from _grants(n, rules)


def _farewell(n: NodeState) -> Iterator[Order]:
    """C6, C9: a node that leaves its pool."""
    if n.desired or n.standing:
        yield _write(n, "clear desired, revoke", desired="", revoked=True)
    elif n.observed and n.state == "Released":
        ours = n.cordon == "ours" or n.paused or n.record is not None
        gone = _write(
            n,
            "delete MIGNode",
            exists=False,
            granted="",
            revoked=False,
            slot=False,
            by_leader=True,
            answered=False,
            reported="",
            resting=False,
        )
        yield gone._replace(violation=Violation.GONE_TOO_EARLY) if ours else gone


def _grants(n: NodeState, rules: Rules) -> Iterator[Order]:
    """C2 to C7."""
    waiting = n.standing and n.slot and not n.answered
    foreign = waiting and not n.by_leader
    if foreign and rules.former_leaders_grants_revoked and n.state != "Held":
        yield _write(n, "revoke a former leader's grant", revoked=True)
        return
    current = n.granted == n.desired and not n.revoked and not foreign
    if current and not n.answered:
        if not n.slot and rules.slot_for_who_came_back:
            back = not n.unavailable_anyway and n.state == "Released"
            yield _grant(n, "replace by a grant with a slot", "slot", slot=True, fair=back)
        return
    if current and (n.state != "Released" or n.reported == n.desired or n.resting):
        return
    if n.state == "Held":
        yield _grant(n, "replace in place", "", slot=True)
    elif waiting:
        yield _grant(n, "replace what was not taken up", "", slot=True)
    else:
        available = not n.unavailable_anyway and n.state == "Released"
        if rules.grants_without_slot:
            yield _grant(n, "grant without slot", "unavailable", slot=False)
        yield _grant(n, "grant with slot", "slot", slot=True, fair=available or not rules.grants_without_slot)


def _grant(n: NodeState, label: str, need: Need, *, slot: bool, fair: bool = True) -> Order:
    fresh = _write(
        n,
        label,
        granted=n.desired,
        slot=slot,
        revoked=False,
        by_leader=True,
        answered=False,
        grant_unchanged=False,
        resting=False,
    )
    return fresh._replace(need=need, fair=fair, grants=True)


def _write(n: NodeState, label: str, **changes: Any) -> Order:  # noqa: ANN401 - the fields of NodeState
    """Every write to the spec makes a new version and a new generation."""
    return Order(label, n._replace(mignode_unchanged=False, observed=False, **changes))
