"""Two nodes, the controller that has the Lease, and one that has lost it and may still be writing.

``maxUnavailable`` is 1. The controller's copy of a MIGNode is the current version or an older one. Its writes carry the
resourceVersion of the copy they were decided on, so an older copy is good for one thing only: counting slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.protocol.agent import agent
from tests.protocol.controller import Need, controller
from tests.protocol.rules import ALL_RULES, Rules
from tests.protocol.shared import Config, Copies, Former, Move, Scope, Shared, State, replaced
from tests.protocol.state import MIGNODE_FIELDS, Fault, Layout, NodeState, Violation
from tests.protocol.world import world

BOTH = (0, 1)


class _Local(NamedTuple):
    """A Step with its outcome as a number."""

    label: str
    after: int
    fair: bool
    fault: Fault | None
    violation: Violation
    writes_mignode: bool


class _Write(NamedTuple):
    """An Order with its outcome as numbers: written by the leader, and written by the former one."""

    label: str
    after: int
    by_former: int
    need: Need
    fair: bool
    violation: Violation


class Fleet:
    """The transitions between States. What a node can do depends on that node alone and is worked out once."""

    def __init__(self, scope: Scope, rules: Rules = ALL_RULES) -> None:
        self.scope, self.rules = scope, rules
        self.layouts: tuple[Layout, ...] = ("A", *scope.edits)
        self.nodes: list[NodeState] = []
        self.shared: list[Shared] = []
        self._node_numbers: dict[NodeState, int] = {}
        self._shared_numbers: dict[Shared, int] = {}
        self._locals: dict[int, list[_Local]] = {}
        self._writes: dict[tuple[int, Config], list[_Write]] = {}
        self._afterwards: dict[tuple[int, int, bool, bool], int] = {}
        self._mirrored: dict[int, int] = {}

    def start(self) -> State:
        """Two nodes with layout A, Ready, and nothing to do."""
        config = Config(0, 0 if self.scope.pause else 2, deleted=False)
        node = self._node(NodeState())
        return State(node, node, self._share(Shared(config, config, (None, None), None, self.scope.faults)))

    def moves(self, state: State) -> Iterator[Move]:
        """Everything that can happen next."""
        for node in BOTH:
            yield from self._local_moves(state, node)
        shared = self.shared[state.shared]
        for node in BOTH:
            yield from self._leader_writes(state, shared, node)
            if shared.former is not None:
                yield from self._former_writes(state, shared, shared.former, node)
        yield from self._reads(state, shared)
        yield from self._administrator(state, shared)
        if self._possible(Fault.LEASE_LOST, shared) and shared.former is None:
            yield from self._lease_lost(state, shared)

    def canonical(self, state: State) -> State:
        """The nodes are interchangeable: a state and its mirror image are one."""
        if state.first <= state.second:
            return state
        mirrored = self._mirrored.get(state.shared)
        if mirrored is None:
            shared = self.shared[state.shared]
            former = shared.former and shared.former._replace(copies=shared.former.copies[::-1])
            mirrored = self._share(shared._replace(copies=shared.copies[::-1], former=former))
            self._mirrored[state.shared] = mirrored
        return State(state.second, state.first, mirrored)

    # -- agents and the world --

    def _local_moves(self, state: State, node: int) -> Iterator[Move]:
        left = self.shared[state.shared].faults
        for label, after, fair, fault, violation, writes in self._local(state[node]):
            if fault is not None and not left:
                continue
            slot = self.nodes[state[node]].holds_slot
            key = (state.shared, node if writes else -1, slot, fault is not None)
            shared = self._afterwards.get(key)
            if shared is None:
                new = self.shared[state.shared]
                new = self._outdate(new, node, slot=slot) if writes else new
                shared = self._share(new._replace(faults=left - (fault is not None)))
                self._afterwards[key] = shared
            yield Move(label, node, self._with(state, node, after, shared), fair, violation)

    def _local(self, number: int) -> list[_Local]:
        found = self._locals.get(number)
        if found is None:
            n = self.nodes[number]
            found = self._locals[number] = [
                _Local(s.label, self._node(s.after), s.fair, s.fault, s.violation, _writes_mignode(n, s.after))
                for s in (*agent(n, self.rules), *world(n, pods=self.scope.pods))
                if (s.after != n or s.violation is not Violation.NONE)
                and (s.fault is None or s.fault in self.scope.kinds)
            ]
        return found

    # -- controllers --

    def _leader_writes(self, state: State, shared: Shared, node: int) -> Iterator[Move]:
        if shared.copies[node] is not None:
            return  # its write would be refused: 409
        other = self.nodes[state[1 - node]]
        n = self.nodes[state[node]]
        others_copy = shared.copies[1 - node]
        taken = other.holds_slot if others_copy is None else others_copy
        informed = shared.known == shared.config and shared.copies == (None, None)
        for write in self._written(state[node], shared.known):
            if write.need == "slot" and taken:
                continue
            fair = write.fair and informed
            if write.need == "slot":
                fair = fair and not other.unavailable_anyway and other.state == "Released"
            elif write.need == "unavailable":
                fair = fair and (n.unavailable_anyway or n.reported == n.desired)
            new = self._outdate(shared, node, slot=n.holds_slot)
            if self.rules.own_writes_seen:
                new = new._replace(copies=shared.copies)
            after = self._with(state, node, write.after, self._share(new))
            yield Move(f"controller: {write.label}", node, after, fair, write.violation)

    def _former_writes(self, state: State, shared: Shared, former: Former, node: int) -> Iterator[Move]:
        if former.copies[node] is not None:
            return
        n = self.nodes[state[node]]
        others_copy = former.copies[1 - node]
        taken = self.nodes[state[1 - node]].holds_slot if others_copy is None else others_copy
        for write in self._written(state[node], former.config):
            if write.need == "slot" and taken:
                continue
            new = self._outdate(shared, node, slot=n.holds_slot)
            if self.rules.own_writes_seen:
                new = new._replace(former=former)
            after = self._with(state, node, write.by_former, self._share(new))
            yield Move(f"former leader: {write.label}", node, after, fair=False, violation=write.violation)

    def _written(self, number: int, config: Config) -> list[_Write]:
        key = (number, config)
        found = self._writes.get(key)
        if found is None:
            orders = controller(
                self.nodes[number],
                self.layouts[config.edit],
                paused=config.pause == 1,
                deleted=config.deleted,
                rules=self.rules,
            )
            found = self._writes[key] = []
            for order in orders:
                foreign = order.after._replace(by_leader=False) if order.grants else order.after
                numbers = self._node(order.after), self._node(foreign)
                found.append(_Write(order.label, *numbers, order.need, order.fair, order.violation))
        return found

    def _reads(self, state: State, shared: Shared) -> Iterator[Move]:
        for node in BOTH:
            if shared.copies[node] is not None:
                new = shared._replace(copies=replaced(shared.copies, node, None))
                yield self._global(state, "controller reads MIGNode", new, node=node, fair=True)
        if shared.known != shared.config:
            yield self._global(state, "controller reads MIGConfig", shared._replace(known=shared.config), fair=True)
        if shared.former is not None:
            yield self._global(state, "former leader exits", shared._replace(former=None), fair=True)

    def _administrator(self, state: State, shared: Shared) -> Iterator[Move]:
        config = shared.config
        if config.deleted:
            return
        if config.edit + 1 < len(self.layouts):
            edited = config._replace(edit=config.edit + 1)
            yield self._global(state, "edit", shared._replace(config=edited))
        if config.pause < 2:
            paused = config._replace(pause=config.pause + 1)
            yield self._global(state, ("pause", "unpause")[config.pause], shared._replace(config=paused))
        if self._possible(Fault.CONFIG_DELETED, shared):
            gone = shared._replace(config=config._replace(deleted=True), faults=shared.faults - 1)
            yield self._global(state, Fault.CONFIG_DELETED.value, gone)

    def _lease_lost(self, state: State, shared: Shared) -> Iterator[Move]:
        """Another controller has the Lease and, by C1, reads everything then; the former one has not noticed."""
        nodes = [self._node(self.nodes[number]._replace(by_leader=False)) for number in state[:2]]
        former = Former(shared.known, shared.copies)
        starts: list[Copies] = [(None, None)]
        if not self.rules.list_after_lease:  # with a standby's copy from before the last grants
            starts += [(False, None), (None, False)]
        for copies in starts:
            new = Shared(shared.config, shared.config, copies, former, shared.faults - 1)
            after = State(nodes[0], nodes[1], self._share(new))
            yield Move(Fault.LEASE_LOST.value, -1, after, fair=False, violation=Violation.NONE)

    # -- numbers --

    def _possible(self, fault: Fault, shared: Shared) -> bool:
        return bool(shared.faults) and fault in self.scope.kinds

    def _outdate(self, shared: Shared, node: int, *, slot: bool) -> Shared:
        """The MIGNode is about to change: copies that were current keep the version before."""
        if shared.copies[node] is None:
            shared = shared._replace(copies=replaced(shared.copies, node, slot))
        former = shared.former
        if former is not None and former.copies[node] is None:
            shared = shared._replace(former=former._replace(copies=replaced(former.copies, node, slot)))
        return shared

    def _global(self, state: State, label: str, new: Shared, *, node: int = -1, fair: bool = False) -> Move:
        return Move(label, node, state._replace(shared=self._share(new)), fair, Violation.NONE)

    @staticmethod
    def _with(state: State, node: int, after: int, shared: int) -> State:
        return State(after, state[1], shared) if node == 0 else State(state[0], after, shared)

    def _node(self, value: NodeState) -> int:
        number = self._node_numbers.setdefault(value, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(value)
        return number

    def _share(self, value: Shared) -> int:
        number = self._shared_numbers.setdefault(value, len(self.shared))
        if number == len(self.shared):
            self.shared.append(value)
        return number


def _writes_mignode(before: NodeState, after: NodeState) -> bool:
    return before[:MIGNODE_FIELDS] != after[:MIGNODE_FIELDS]
