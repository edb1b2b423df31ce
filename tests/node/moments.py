"""How it is seen from outside that an agent on a real node has come to a step: one mark for each.

Nothing holds the agent there, so what is done at a mark is done at that moment or a little later. Exact places, before
and after every write and inside every call of the driver, are tried on simulated nodes (``tests/e2e``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.gpu.journal import Journal
from mig_manager.kube.kinds import MIG_NODE, POD
from tests.e2e.layouts import NARROW, WIDE
from tests.node.cluster import WORK, RealCluster
from tests.node.real import RealNode

AGENT = ("mig-manager", "agent")
PLUGIN = ("tests.node.pods.plugin",)


@dataclass(frozen=True)
class Scene:
    """A node in the middle of a change from wide to narrow that began at a version of the cluster."""

    cluster: RealCluster
    node: RealNode
    since: int

    @property
    def spec(self) -> Mapping[str, Any]:
        """The MIGNode's spec."""
        found: Mapping[str, Any] = self.cluster.person.get(MIG_NODE, self.node.name)["spec"]
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        """The MIGNode's status."""
        return self.cluster.status(self.node)

    def grant_is(self, state: str) -> bool:
        """Whether the agent's word about the present grant is this."""
        grant = self.status.get("grant", {})
        return bool(grant.get("state") == state and grant.get("id") == self.spec.get("grant", {}).get("id"))

    def noted(self, annotation: str) -> bool:
        """Whether an annotation of ours is on the Node."""
        return annotation in self.cluster.node(self.node)["metadata"].get("annotations", {})

    def recorded(self) -> bool:
        """Whether a change is open in the node's journal."""
        return Journal(journal_of(self.node)).read().intent is not None


def journal_of(node: RealNode) -> Path:
    """The agent's journal: a file below the node's own /var."""
    return node.directory / "overlay" / "var" / "upper" / "lib" / "mig-manager" / "journal.json"


def plans(scene: Scene) -> bool:
    """The status says what the new wish would take."""
    return bool(scene.status.get("plan", {}).get("hash") == scene.spec["desired"]["hash"])


def evicts(scene: Scene) -> bool:
    """A pod of ours has been told to leave since."""
    return any(
        event.kind is POD
        and event.body["metadata"]["namespace"] == WORK
        and "deletionTimestamp" in event.body["metadata"]
        for event in scene.cluster.history(scene.since)
    )


def takes_back(scene: Scene) -> bool:
    """The labels promise less than the layout that is on its way out."""
    return scene.cluster.labels(scene.node).get("mig-3g.40gb") != "2"


def is_settled(scene: Scene) -> bool:
    """A grant for which there is nothing to do has been given."""
    return "grant" in scene.spec


def sends_clients_away(scene: Scene) -> bool:
    """The device plugin is told to go, or was: the annotation is gone when it may come back."""
    return scene.noted(PAUSED)


def is_alone(scene: Scene) -> bool:
    """No device plugin runs on the node any more."""
    return scene.noted(PAUSED) and not scene.node.processes(*PLUGIN)


def cuts(scene: Scene) -> bool:
    """Something of the old layout is gone, and not all of the new one is there."""
    return scene.recorded() and scene.node.counts() not in (WIDE, NARROW)


def has_cut(scene: Scene) -> bool:
    """The new layout is there, and the record closed."""
    return scene.node.counts() == NARROW and not scene.recorded()


Mark = Callable[[Scene], bool]

CHANGE: dict[str, Mark] = {
    "observe": lambda scene: scene.spec["desired"]["profile"] == "narrow",
    "plan": plans,
    "take_up": lambda scene: scene.grant_is("Held"),
    "cordon": lambda scene: scene.noted(CORDONED),
    "drain": evicts,
    "pause_clients": sends_clients_away,
    "retract": takes_back,
    "check_holders": is_alone,
    "begin": is_alone,
    "apply": cuts,
    # The agent that was killed there left it as it is until another one comes, which takes seconds.
    "finish_begun": cuts,
    "refresh_device_files": has_cut,
    "resume_clients": lambda scene: has_cut(scene) and not scene.noted(PAUSED),
    "await_advertised": lambda scene: has_cut(scene) and bool(scene.node.processes(*PLUGIN)),
    "release": lambda scene: has_cut(scene) and not scene.noted(CORDONED),
}
"""The steps of a change, in the order in which their marks come."""

OTHERS: dict[str, Mark] = {
    "settle": is_settled,
    "stand_down": lambda scene: bool(scene.spec.get("grant", {}).get("revoked")),
}
"""Steps that a change which goes well does not need."""
