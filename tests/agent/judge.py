"""The promises that no kill and no fault may break, checked at every call that an agent makes.

Nothing here asks the product what it thinks: slices in use are told by their birth numbers on the machine, a cordon's
owner by the API's own record, a budget by counting healthy pods. Every check is counted (``must``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mig_manager.agent.names import CORDONED, PAUSED, PAUSED_WORD, PREFIX
from mig_manager.kube.kinds import NODE, POD, POD_DISRUPTION_BUDGET, Kind
from mig_manager.kube.memory import Call, Store
from mig_manager.kube.ownership import owners
from mig_manager.kube.port import Object
from mig_manager.sim.model.state import CardState, MachineState
from tests.chaos.counting import must

WORKLOADS = "default"
"""The namespace of pods that may only be evicted; GPU clients, which live elsewhere, may be deleted."""

KEPT_OFF = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
"""Annotations of others by which a node in flight keeps autoscalers away."""

Births = tuple[bool, bool, tuple[tuple[int, int, int, tuple[int, ...]], ...]]


@dataclass(frozen=True)
class InUse:
    """A slice that a pod uses: whose, on which card, and the birth number of its GPU instance."""

    pod: str
    card: str
    birth: int


@dataclass
class Judge:
    """Watches one node, called ``node``, and the agent that writes as ``agent``.

    ``bystanders`` are cards that nobody wants changed, as they were.
    """

    store: Store
    node: str
    agent: str
    bystanders: dict[str, Births] = field(default_factory=dict)
    _before: Object = field(default_factory=dict)
    _healthy: dict[tuple[str, str], int] = field(default_factory=dict)

    # -- the cards --

    def look(self, machine: MachineState, used: Iterator[InUse]) -> None:
        """What must hold of the cards at every moment."""
        there = {(card.uuid, i.generation) for card in machine.cards for i in card.instances if i.compute}
        for slice_ in used:
            must((slice_.card, slice_.birth) in there, f"the slice of {slice_.pod} was destroyed")
        for uuid, births in self.bystanders.items():
            card = machine.card(uuid)
            must(card is not None and births == births_of(card), f"card {uuid}, which nobody wants changed, was")

    def stand_by(self, machine: MachineState, *uuids: str) -> None:
        """From now on these cards must stay as they are."""
        for uuid in uuids:
            card = machine.card(uuid)
            assert card is not None
            self.bystanders[uuid] = births_of(card)

    # -- what the agent writes --

    def before(self, call: Call) -> None:
        """A request of the agent is about to be carried out."""
        if call.kind == NODE:
            self._before = copy.deepcopy(self._find(NODE, None, self.node))
        if call.kind == POD:
            self._healthy = {key: len(self._healthy_pods(budget)) for key, budget in self._budgets()}

    def after(self, call: Call) -> None:
        """It was carried out."""
        if call.kind == NODE and call.verb == "patch":
            self._node_written(self._before, self._find(NODE, None, self.node))
        if call.kind == POD and call.verb in ("evict", "delete"):
            self._pod_sent_away(call)

    def _node_written(self, before: Object, after: Object) -> None:
        theirs = unschedulable(before) and self.agent not in owners(before, "spec", "unschedulable")
        if theirs:
            must(unschedulable(after), "a cordon that is somebody else's was lifted")
            must(self.agent not in owners(after, "spec", "unschedulable"), "a cordon that is somebody else's was taken")
        if CORDONED in notes(after) and CORDONED not in notes(before):
            mine = unschedulable(after) and self.agent in owners(after, "spec", "unschedulable")
            must(mine and not theirs, "our record claims a cordon that is not ours")
        earlier = gates(before)
        for gate, former in gates(after).items():
            if gate not in earlier:
                was = labels(before).get(gate)
                must(was in (former, PAUSED_WORD), f"the record says {gate} was {former}, and it was {was}")
        for name, value in foreign(notes(before)).items():
            must(name in KEPT_OFF or foreign(notes(after)).get(name) == value, f"annotation {name} was changed")
        paused = {*earlier, *gates(after), *(name for name, value in labels(before).items() if value == PAUSED_WORD)}
        for name, value in foreign(labels(before)).items():
            must(name in paused or foreign(labels(after)).get(name) == value, f"label {name} was changed")

    def _pod_sent_away(self, call: Call) -> None:
        if call.verb == "delete":
            must(call.namespace != WORKLOADS, f"{call.namespace}/{call.name} was deleted and not evicted")
        for key, budget in self._budgets():
            left = len(self._healthy_pods(budget))
            least = budget["spec"].get("minAvailable", 0)
            kept = left >= least or left == self._healthy.get(key, left)
            must(kept, f"sending {call.name} away left {left} of {least} pods of {key[1]}")

    # -- reading --

    def _find(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return self.store.find((kind, namespace, name)) or {"metadata": {}}

    def _budgets(self) -> list[tuple[tuple[str, str], Object]]:
        return [
            ((body["metadata"]["namespace"], body["metadata"]["name"]), body)
            for _, body in self.store.of_kind(POD_DISRUPTION_BUDGET)
        ]

    def _healthy_pods(self, budget: Object) -> list[Object]:
        wanted = budget["spec"]["selector"].get("matchLabels", {})
        return [
            pod
            for _, pod in self.store.of_kind(POD, budget["metadata"]["namespace"])
            if wanted.items() <= labels(pod).items() and healthy(pod)
        ]


def births_of(card: CardState) -> Births:
    """A card's modes, and its instances with the numbers that each gets when it is made."""
    made = [(i.id, i.start, i.generation, tuple(c.generation for c in i.compute)) for i in card.instances]
    return card.mig_current, card.mig_pending, tuple(sorted(made))


def notes(body: Object) -> Mapping[str, str]:
    """The annotations of an object."""
    return body["metadata"].get("annotations") or {}


def labels(body: Object) -> Mapping[str, str]:
    """The labels of an object."""
    return body["metadata"].get("labels") or {}


def foreign(values: Mapping[str, str]) -> dict[str, str]:
    """Those that are not ours."""
    return {name: value for name, value in values.items() if not name.startswith(PREFIX)}


def unschedulable(node: Object) -> bool:
    """Whether the Node is cordoned."""
    return bool(node.get("spec", {}).get("unschedulable"))


def gates(node: Object) -> dict[str, str | None]:
    """The deploy labels that a pause has taken, with the values that it recorded; none by a record that is damaged."""
    try:
        return dict(json.loads(notes(node).get(PAUSED, ""))["labels"])
    except (ValueError, TypeError, KeyError):
        return {}


def healthy(pod: Object) -> bool:
    """Whether a budget counts on the pod."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or ())
    return ready and "deletionTimestamp" not in pod["metadata"]
