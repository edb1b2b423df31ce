"""What the demo promises, checked: slices in use stay, budgets are kept, never too many nodes are out at once.

The cards are asked themselves. A slice that was destroyed and made again at the same place has the same UUID, as with
the driver; so what is compared is when it was made, which the simulated machine counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mig_manager.sim.demo.errors import DemoError
from mig_manager.sim.demo.view import PodView, View
from mig_manager.sim.model.lookup import profile_of
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import CardState, GpuInstanceState

EVICTED = "EvictionByEvictionAPI"
"""The reason in a pod's condition DisruptionTarget when it leaves by the Eviction API (Kubernetes documentation,
"Disruptions"): that way, and no other, asks PodDisruptionBudgets."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice that is there: on which card, what and where, and as the how manieth instance it was made."""

    node: str
    gpu: str
    name: str
    start: int
    made: int


def slices(machines: Mapping[str, Machine]) -> dict[Slice, frozenset[str]]:
    """All slices of the machines, each with the pods (``namespace/name``) that use it."""
    found = {}
    for node, machine in machines.items():
        for card in machine.read().cards:
            for instance in card.instances:
                users = frozenset(client.name for client in card.clients_of(instance.id))
                found[_slice(node, card, instance)] = users
    return found


def _slice(node: str, card: CardState, instance: GpuInstanceState) -> Slice:
    return Slice(node, card.uuid, str(profile_of(card, instance).name), instance.start, instance.generation)


@dataclass
class Witness:
    """Watches an act from its beginning. ``budget`` is how many pods of an app its PodDisruptionBudget wants ready."""

    before: Mapping[Slice, frozenset[str]]
    budget: Mapping[str, int]
    most_out: int = 0
    fewest_ready: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, PodView] = field(default_factory=dict)

    def look(self, seen: View) -> None:
        """Take in one moment; DemoError when a budget is not kept at it."""
        self.most_out = max(self.most_out, sum(node.taken_out for node in seen.nodes.values()))
        self._pods |= seen.pods
        for app, wanted in self.budget.items():
            ready = sum(pod.ready and not pod.leaving for pod in seen.pods.values() if pod.app == app)
            self.fewest_ready[app] = min(ready, self.fewest_ready.get(app, ready))
            if ready < wanted:
                raise DemoError(f"watching the pods of {app}: {ready} ready, its budget wants {wanted}")

    @property
    def left(self) -> dict[str, PodView]:
        """The pods, by name, that were made to leave, as they were last seen."""
        return {pod.name: pod for pod in self._pods.values() if pod.leaving}

    def kept(self, after: Mapping[Slice, frozenset[str]], evicted: Iterable[str] = ()) -> list[Slice]:
        """The slices that were in use and are still the same ones.

        DemoError when one is missing that was used by somebody else than ``evicted``, or when a pod left otherwise than
        by the Eviction API.
        """
        allowed = frozenset(evicted)
        for name, pod in self.left.items():
            if name not in allowed or pod.disruption != EVICTED:
                raise DemoError(f"watching {name}: it left because of {pod.disruption or 'a deletion'}")
        used = {one: users for one, users in self.before.items() if users}
        for one, users in used.items():
            if one not in after and not users <= allowed:
                where = f"{one.name} at {one.start} on {one.gpu} of {one.node}"
                raise DemoError(f"comparing slices: {where} was in use by {', '.join(sorted(users))} and is gone")
        return [one for one, users in used.items() if one in after and not users <= allowed]
