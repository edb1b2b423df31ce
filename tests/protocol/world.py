"""What people, pods and machines of the model do to a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.protocol.state import SCHEDULABLE, TOP_OF_PASS, Fault, NodeState, Step, step


def world(n: NodeState, *, pods: bool) -> Iterator[Step]:
    """Every event in this state. Only that time passes and that a node turns Ready again can be relied on."""
    if pods:
        yield from _pods(n)
    if n.resting:
        yield step(n, "notBefore passes", resting=False)
    if not n.ready:
        yield step(n, "Ready again", ready=True, node_unchanged=False)
    for fault, changes in _faults(n):
        yield step(n, fault.value, fair=False, fault=fault, **changes)


def _pods(n: NodeState) -> Iterator[Step]:
    offered = n.cards and n.cards == n.last_good and not n.paused
    if n.ready and n.cordon in SCHEDULABLE and offered and not n.pod:
        yield step(n, "a pod takes a slice", fair=False, pod=True)
    if n.pod:
        yield step(n, "pod ends", fair=False, pod=False, pdb_closed=False)
        if n.pdb_closed:
            yield step(n, "PDB opens", fair=False, pdb_closed=False)


def _faults(n: NodeState) -> Iterator[tuple[Fault, dict[str, Any]]]:
    """Faults and what they change."""
    if n.pod and not n.pdb_closed:
        yield Fault.PDB_CLOSES, {"pdb_closed": True}
    if n.ready:
        yield Fault.NOT_READY, {"ready": False, "node_unchanged": False}
    if n.cordon in SCHEDULABLE:
        cordon = "person's" if n.cordon == "none" else "person's with our annotation"
        yield Fault.CORDONED, {"cordon": cordon, "node_unchanged": False}
    else:
        cordon = "none" if n.cordon == "person's" else "our annotation alone"
        yield Fault.UNCORDONED, {"cordon": cordon, "node_unchanged": False}
    nothing = {"cards": "", "pod": False, "pdb_closed": False}
    yield Fault.REBOOT, {**TOP_OF_PASS, **nothing, "ready": False}
    if n.cards and not n.pod and n.record is None:
        yield Fault.SLICES_DELETED, {"cards": ""}
    fresh: dict[str, Any] = NEW_MIGNODE | NEW_NODE
    unread = {"mignode_unchanged": False, "grant_unchanged": False, "node_unchanged": False}
    yield Fault.RECREATED, fresh | unread
    yield Fault.REPLACED, {**TOP_OF_PASS, **fresh, **nothing, "last_good": "", "record": None}


NEW_MIGNODE: dict[str, Any] = {
    "exists": True,
    "desired": "",
    "granted": "",
    "slot": False,
    "revoked": False,
    "by_leader": True,
    "answered": False,
    "state": "Released",
    "reported": "",
    "resting": False,
    "observed": False,
}
NEW_NODE: dict[str, Any] = {"ready": True, "cordon": "none", "paused": False, "taken_out": False}
