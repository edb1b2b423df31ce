"""One node of the model: its MIGNode, its Node, its host and the agent's process, as one value.

Ids need no numbers: a grant is never removed, only replaced by a higher id, so "is it the current one?" is one bit. A
resourceVersion needs none either: "has the object changed since it was read?" is one bit.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, NamedTuple

Layout = Literal["", "A", "B"]
"""What is on the cards or wanted; empty is nothing whole, or nothing at all."""

Hold = Literal["Released", "Held", "Repairing"]

Cordon = Literal["none", "ours", "person's", "person's with our annotation", "our annotation alone"]
"""``spec.unschedulable``, whose it is, and our annotation beside it."""

Doing = Literal["", "acknowledge", "check lease", "write hold", "cordon", "uncordon", "write record", "destroy"]
"""Where the agent's process is between two requests; empty is the top of a pass."""

UNSCHEDULABLE: Final = frozenset({"ours", "person's", "person's with our annotation"})
PERSONS: Final = frozenset({"person's", "person's with our annotation"})
STALE: Final = frozenset({"person's with our annotation", "our annotation alone"})
SCHEDULABLE: Final = frozenset({"none", "our annotation alone"})


class Fault(Enum):
    """What is rare, and happens only as often as a search allows."""

    NOT_READY = "the node turns NotReady"
    CORDONED = "a person cordons"
    UNCORDONED = "a person uncordons"
    REBOOT = "reboot"
    SLICES_DELETED = "slices deleted by hand"
    RECREATED = "Node re-created, same machine"
    REPLACED = "Node re-created, other machine"
    PDB_CLOSES = "a PDB closes"
    CREATION_FAILS = "creation fails"
    CONFIG_DELETED = "MIGConfig deleted"
    LEASE_LOST = "Lease lost"


class Violation(Enum):
    """What must never be seen."""

    NONE = "nothing"
    TWO_OUT = "two nodes taken out of service by us"
    HOLDER_LOST_SLICE = "a slice with a holder destroyed"
    NO_GRANT = "begun or destroyed without a grant"
    CORDON_LIFTED = "a person's cordon lifted"
    GONE_TOO_EARLY = "MIGNode deleted while something of ours was there"
    STUCK = "no good state can be reached any more"


class NodeState(NamedTuple):
    """Everything that one node's behaviour depends on."""

    # MIGNode.spec, written by the controller
    exists: bool = True
    desired: Layout = "A"
    granted: Layout = "A"  # the grant's layout; empty: never granted
    slot: bool = False
    revoked: bool = False
    by_leader: bool = True  # the grant names the present holder of the Lease
    # MIGNode.status, written by the agent
    answered: bool = True  # status.grant.id is spec.grant.id
    state: Hold = "Released"
    reported: Layout = "A"
    resting: bool = False  # notBefore lies ahead
    observed: bool = True  # observedGeneration is the generation
    # Node
    ready: bool = True
    cordon: Cordon = "none"
    paused: bool = False
    # host
    cards: Layout = "A"
    last_good: Layout = "A"  # what the labels promise
    record: tuple[Layout, Layout] | None = None  # the open intent record: to, from
    pod: bool = False  # one holds the slice that a change destroys
    pdb_closed: bool = False  # and its budget forbids the eviction
    # the agent's process and what it has read
    doing: Doing = ""
    claim: Hold = "Released"
    order: Layout = ""
    mignode_unchanged: bool = False
    grant_unchanged: bool = False
    node_unchanged: bool = False
    # known to the observer only: our cordon met an available node, and something of ours is still there
    taken_out: bool = False

    @property
    def unavailable_anyway(self) -> bool:
        """Not Ready, or unschedulable by somebody else, or short of slices that were promised."""
        return not self.ready or self.cordon in PERSONS or not self.cards or self.cards != self.last_good

    @property
    def standing(self) -> bool:
        """Whether a grant is there that was not revoked."""
        return self.exists and bool(self.granted) and not self.revoked

    @property
    def holds_slot(self) -> bool:
        """The slot rule, C2."""
        return self.exists and (self.state == "Held" or (self.standing and self.slot and not self.answered))


MIGNODE_FIELDS: Final = NodeState._fields.index("observed") + 1
"""The first fields of a NodeState are the MIGNode's."""

TOP_OF_PASS: Final[dict[str, Any]] = {
    "doing": "",
    "claim": "Released",
    "order": "",
    "mignode_unchanged": False,
    "grant_unchanged": False,
    "node_unchanged": False,
}
"""What a crash leaves of the agent's process, and where a pass begins."""


class Step(NamedTuple):
    """One action on one node. Only ``fair`` ones, justified by a live read, count as progress."""

    label: str
    after: NodeState
    fair: bool
    fault: Fault | None
    violation: Violation


def step(
    before: NodeState,
    label: str,
    *,
    fair: bool = True,
    fault: Fault | None = None,
    violation: Violation = Violation.NONE,
    **changes: Any,  # noqa: ANN401 - the fields of NodeState, each with its own type
) -> Step:
    """The action that changes these fields. The node is back in service when nothing of ours is left on it."""
    after = before._replace(**changes)
    if after.taken_out and after.cordon != "ours" and not after.paused:
        after = after._replace(taken_out=False)
    return Step(label, after, fair, fault, violation)
