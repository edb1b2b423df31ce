"""MIGNodes come with the nodes of a pool and go after them.

A node that leaves its pool keeps its MIGNode until its agent has answered: first the wish is cleared and the grant
revoked, then the agent takes away what is ours and answers last of all, by ``observedGeneration``, and only then the
MIGNode may go.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from mig_manager.api.mignode import Desired, MIGNodeSpec
from mig_manager.controller.grant import Write
from mig_manager.controller.records import MIGNodeRecord, NodeRecord

DEADLINE_S = 300.0
"""For how long the answer of a node without an agent is waited for."""


class Farewell(Enum):
    """What comes next for a MIGNode whose node belongs to no pool."""

    CLEAR = auto()
    WAIT = auto()
    DELETE = auto()


def farewell(record: MIGNodeRecord) -> Farewell:
    """What comes next. DELETE only if the wish is gone, the grant revoked, and the agent has answered exactly this."""
    if record.deleting or record.unreadable:
        return Farewell.WAIT
    if record.config or (record.grant is not None and not record.grant.revoked):
        return Farewell.CLEAR
    answered = record.released and record.observed_generation == record.generation
    return Farewell.DELETE if answered else Farewell.WAIT


def can_be_abandoned(record: MIGNodeRecord) -> bool:
    """Whether a MIGNode may go without an answer when no agent is left to give one.

    A node that is Held or being repaired really is out of service, so its slot is not given to another: it waits for an
    agent, or for the end of its Node.
    """
    return record.released and not record.deleting and not record.unreadable


def cleared(record: MIGNodeRecord) -> Write:
    """The write that takes wish and grant away; a grant is revoked and never removed, so that no id comes twice."""
    revoke = record.grant is not None and not record.grant.revoked
    return Write(record.name, "the node has left its pool", clear=bool(record.config), revoke=revoke)


def mignode_of(node: NodeRecord, wish: Desired) -> dict[str, Any]:
    """A new MIGNode for a node. It is owned by the Node, so that it goes with it, and bound to its UID."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    return {
        "metadata": {"name": node.name, "ownerReferences": [owner]},
        "spec": MIGNodeSpec(node.uid, wish).to_dict(),
    }
