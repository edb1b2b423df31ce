"""Breadth-first search through every state of a Fleet: safety at each, then whether a good one stays reachable."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from tests.protocol.agent import agent
from tests.protocol.fleet import BOTH, Fleet
from tests.protocol.rules import ALL_RULES, Rules
from tests.protocol.shared import Scope, State
from tests.protocol.state import NodeState, Violation


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search found: a violation with the shortest way there, or that there is none in so many states."""

    violation: Violation
    trace: tuple[str, ...]
    states: int
    transitions: int
    labels: frozenset[str]
    """What has happened on the way to some state."""

    def __str__(self) -> str:
        steps = "".join(f"\n  {number}. {line}" for number, line in enumerate(self.trace, 1))
        return f"{self.violation.value}, {self.states} states, {self.transitions} transitions{steps}"


def explore(scope: Scope, rules: Rules = ALL_RULES) -> Finding:
    """Search until the first violation, or to the end."""
    return _Search(Fleet(scope, rules)).run()


def is_good(fleet: Fleet, state: State) -> bool:
    """Nothing of ours is left, status is the truth, every node is Ready or blocked by somebody else, nobody moves."""
    shared = fleet.shared[state.shared]
    if shared.former is not None or shared.copies != (None, None) or shared.known != shared.config:
        return False
    nodes = fleet.nodes[state.first], fleet.nodes[state.second]
    return all(_is_settled(fleet, nodes[node], nodes[1 - node], state) for node in BOTH)


def _is_settled(fleet: Fleet, n: NodeState, other: NodeState, state: State) -> bool:
    config = fleet.shared[state.shared].config
    if n.doing or n.cordon not in {"none", "person's"} or n.paused or n.record or n.state != "Released":
        return False
    if any(step.fair for step in agent(n, fleet.rules)):
        return False
    if config.deleted:
        return not n.exists
    if n.reported != n.cards or not n.observed or n.desired != fleet.layouts[config.edit]:
        return False
    ready = n.standing and n.answered and n.granted == n.desired == n.cards
    blocked = config.pause == 1 or (n.pod and n.pdb_closed and n.resting)
    budget_used_up = other.cordon == "person's" and not n.unavailable_anyway
    return ready or blocked or budget_used_up


class _Search:
    """The states seen so far, in the order they were found, each with the one it was found from."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.states: list[State] = []
        self.transitions = 0
        self._index: dict[State, int] = {}
        self._parents, self._hows = array("q"), array("q")
        self._labels: dict[tuple[str, int], int] = {}
        self._sources, self._targets = array("q"), array("q")

    def run(self) -> Finding:
        fleet = self.fleet
        self._add(fleet.start(), -1, ("start", -1))
        position = 0
        while position < len(self.states):
            for label, node, after, fair, violation in fleet.moves(self.states[position]):
                self.transitions += 1
                if violation is not Violation.NONE:
                    return self._finding(violation, position, (label, node))
                known = len(self.states)
                target = self._add(after, position, (label, node))
                out = fleet.nodes[after.first].taken_out and fleet.nodes[after.second].taken_out
                if target == known and out:
                    return self._finding(Violation.TWO_OUT, target)
                if fair:
                    self._sources.append(position)
                    self._targets.append(target)
            position += 1
        stuck = self._first_stuck()
        return self._finding(Violation.NONE, 0) if stuck is None else self._finding(Violation.STUCK, stuck)

    def _add(self, state: State, parent: int, how: tuple[str, int]) -> int:
        state = self.fleet.canonical(state)
        number = self._index.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self._parents.append(parent)
            self._hows.append(self._labels.setdefault(how, len(self._labels)))
        return number

    def _first_stuck(self) -> int | None:
        """The first state from which no good one can be reached by fair steps, found by going backwards from those."""
        count = len(self.states)
        starts = array("q", bytes(8 * (count + 2)))
        for target in self._targets:
            starts[target + 2] += 1
        for number in range(2, count + 2):
            starts[number] += starts[number - 1]
        backwards = array("q", bytes(8 * len(self._targets)))
        for source, target in zip(self._sources, self._targets, strict=True):
            backwards[starts[target + 1]] = source
            starts[target + 1] += 1
        reached = bytearray(count)
        todo = [number for number in range(count) if is_good(self.fleet, self.states[number])]
        for number in todo:
            reached[number] = 1
        while todo:
            number = todo.pop()
            for source in backwards[starts[number] : starts[number + 1]]:
                if not reached[source]:
                    reached[source] = 1
                    todo.append(source)
        stuck = reached.find(0)
        return None if stuck < 0 else stuck

    def _finding(self, violation: Violation, number: int, last: tuple[str, int] | None = None) -> Finding:
        labels = {index: how for how, index in self._labels.items()}
        hows = [] if last is None else [last]
        while self._parents[number] >= 0:
            hows.append(labels[self._hows[number]])
            number = self._parents[number]
        # A state and its mirror image are one, so the numbers of the nodes may swap on the way.
        trace = tuple(label if node < 0 else f"{label} (node {node})" for label, node in reversed(hows))
        return Finding(
            violation, trace, len(self.states), self.transitions, frozenset(label for label, _ in self._labels)
        )
