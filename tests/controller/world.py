"""A cluster in memory with nodes, agents that follow the protocol, and a controller that is run pass by pass."""

# ruff: noqa: ANN401, D102 - fields of objects are passed on; the names say the rest
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mig_manager.controller.loop import Loop
from mig_manager.controller.settings import LEASE_NAME, Settings
from mig_manager.controller.store import Store
from mig_manager.kube import memory
from mig_manager.kube.errors import ConflictError
from mig_manager.kube.kinds import EVENT, LEASE, MIG_CONFIG, MIG_NODE, NODE, POD
from mig_manager.kube.memory import Call, MemoryCluster
from mig_manager.kube.port import Cluster
from tests.controller.builders import Clock, config_object, node_object, ready_status

NAMESPACE = "mig-manager"
AGENT_LABELS = {"app.kubernetes.io/name": "mig-manager", "app.kubernetes.io/component": "agent"}


class Controller:
    """A controller whose watches are slow: it sees what changed when ``sync`` is called, and its own writes."""

    def __init__(
        self, world: World, identity: str, settings: Settings, before: Callable[[Call], None] = lambda _: None
    ) -> None:
        self.calls: list[Call] = []
        self.before = before
        self.after: Callable[[Call], None] = lambda _: None
        self.cluster = MemoryCluster(world.objects, "controller", self._before, self._after)
        self.store = Store()
        self.leads = True
        self.loop = Loop(
            self.cluster,
            self.store,
            settings,
            identity,
            leads=lambda: self.leads,
            monotonic=world.clock,
            now=world.clock.now,
        )

    def _after(self, call: Call) -> None:
        self.after(call)

    def _before(self, call: Call) -> None:
        self.before(call)
        self.calls.append(call)

    @property
    def writes(self) -> list[str]:
        """What was written: ``patch MIGNode n1``; Events are left out."""
        return [f"{c.verb} {c.kind.name} {c.name}" for c in self.calls if c.verb != "get" and c.kind != EVENT]

    def sync(self) -> None:
        """See everything as it is."""
        self.loop.refresh()
        self.calls.clear()

    def run(self) -> float:
        """See everything as it is and decide."""
        self.sync()
        return self.loop.pass_once()


class World:
    """Objects, a clock, and an administrator; ``agents`` says whether the nodes' agents run as pods."""

    def __init__(self, *, agents: bool = False) -> None:
        self.clock = Clock()
        self.objects = memory.Store(now=self.clock.now)
        self.admin = MemoryCluster(self.objects, "kubectl")
        self.settings = Settings(NAMESPACE) if agents else Settings(NAMESPACE, agent_selector="")
        self.lease("me_1")

    def controller(self, identity: str = "me_1", **options: Any) -> Controller:
        return Controller(self, identity, self.settings, **options)

    def lease(self, holder: str) -> None:
        """Say who has the Lease."""
        if self.objects.find((LEASE, NAMESPACE, LEASE_NAME)) is None:
            self.admin.create(LEASE, {"metadata": {"name": LEASE_NAME}, "spec": {}}, NAMESPACE)
        self.admin.patch(LEASE, LEASE_NAME, {"spec": {"holderIdentity": holder}}, NAMESPACE)

    def add_config(self, name: str = "pool", **spec: Any) -> None:
        self.admin.create(MIG_CONFIG, config_object(name, **spec))

    def edit(self, name: str = "pool", **spec: Any) -> None:
        self.admin.patch(MIG_CONFIG, name, {"spec": spec})

    def force(self, name: str = "pool", **spec: Any) -> None:
        """Write a spec past the admission, as an older schema might have let it through."""
        key = (MIG_CONFIG, None, name)
        found = self.admin.get(MIG_CONFIG, name)
        self.objects.replace(key, {**found, "spec": {**found["spec"], **spec}}, "kubectl", None)

    def add_node(self, name: str, labels: Mapping[str, str] | None = None) -> Agent:
        self.admin.create(NODE, node_object(name, labels))
        self.admin.patch(NODE, name, {"status": ready_status()}, subresource="status")
        return Agent(MemoryCluster(self.objects, f"agent-{name}"), name)

    def add_agent_pod(self, node: str, *, ready: bool = True) -> None:
        body = {"metadata": {"name": f"agent-{node}", "labels": AGENT_LABELS}, "spec": {"nodeName": node}}
        self.admin.create(POD, body, NAMESPACE)
        status = ready_status("True" if ready else "False")
        self.admin.patch(POD, f"agent-{node}", {"status": status}, NAMESPACE, subresource="status")

    def mignode(self, name: str) -> dict[str, Any]:
        return self.admin.get(MIG_NODE, name)

    def has_mignode(self, name: str) -> bool:
        return self.objects.find((MIG_NODE, None, name)) is not None

    def status(self, name: str = "pool") -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(MIG_CONFIG, name)["status"]
        return found

    def condition(self, kind: str = "Ready", name: str = "pool") -> tuple[str, str, str]:
        found = next(c for c in self.status(name)["conditions"] if c["type"] == kind)
        return found["status"], found["reason"], found["message"]

    def events(self) -> list[tuple[str, str, int]]:
        """Object, reason and count of all Events."""
        found = self.admin.list(EVENT).items
        return sorted((e["involvedObject"]["name"], e["reason"], e["count"]) for e in found)


class Agent:
    """A node's agent as far as the protocol goes: it plans, takes up, works in no time, and answers."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.on_cards = ""

    def mignode(self) -> dict[str, Any]:
        return self.cluster.get(MIG_NODE, self.name)

    def plan(self, impact: str = "EvictPods", **changes: Any) -> None:
        """Plan the wish, and answer it if nothing of ours is there."""
        found = self.mignode()
        wanted = found["spec"].get("desired", {}).get("hash", "")
        done = wanted == self.on_cards
        plan = {"hash": wanted, "impact": "None" if done else impact, "create": 0 if done else 3, **changes}
        state = found.get("status", {}).get("grant", {}).get("state", "Released")
        answered = {"observedGeneration": found["metadata"]["generation"]} if state == "Released" else {}
        self.patch({"plan": plan, **answered})

    def take_up(self) -> bool:
        """Rule A2 for a grant with a slot, from one live read; whether it is Held now."""
        return self.finish_take_up(self.mignode())

    def finish_take_up(self, seen: dict[str, Any]) -> bool:
        grant = seen["spec"].get("grant")
        answered = seen.get("status", {}).get("grant", {})
        if not grant or grant["revoked"] or not grant["slot"] or answered.get("id") == grant["id"]:
            return False
        lease = self.cluster.get(LEASE, LEASE_NAME, NAMESPACE)
        if lease["spec"].get("holderIdentity") != grant["by"]:
            return False
        version = seen["metadata"]["resourceVersion"]
        status = {"grant": {"id": grant["id"], "state": "Held"}, "observedGeneration": seen["metadata"]["generation"]}
        try:
            self.patch(status, version)
        except ConflictError:
            return False
        return True

    def release(self, result: str = "Applied", **changes: Any) -> None:
        """Rule A9: nothing of ours is left, so Released is written last; Applied says that the layout is there."""
        found = self.mignode()
        number = found["status"]["grant"]["id"]
        if result == "Applied":
            self.on_cards = found["spec"]["grant"]["hash"]
        self.patch({"grant": {"id": number, "state": "Released", "result": result, **changes}})
        self.plan()
        self.ready(is_ready=self.on_cards == found["spec"].get("desired", {}).get("hash"))

    def acknowledge(self) -> None:
        """Rule A3: nothing to do under a new id."""
        found = self.mignode()
        self.patch({"grant": {"id": found["spec"]["grant"]["id"], "state": "Released", "result": "Applied"}})
        self.plan()
        self.ready(is_ready=True)

    def ready(self, *, is_ready: bool, reason: str = "Ready", message: str = "") -> None:
        stamp = "2026-01-01T00:00:00Z"
        value = {"status": str(is_ready), "reason": reason, "message": message, "lastTransitionTime": stamp}
        self.patch({"conditions": [{"type": "Ready", **value}]})

    def patch(self, status: Mapping[str, Any], version: str | None = None) -> None:
        present = self.mignode().get("status", {})
        if version is None and all(present.get(key) == value for key, value in status.items()):
            return
        body: dict[str, Any] = {"status": status}
        if version is not None:
            body["metadata"] = {"resourceVersion": version}
        self.cluster.patch(MIG_NODE, self.name, body, subresource="status")

    @property
    def grant(self) -> dict[str, Any]:
        found: dict[str, Any] = self.mignode()["spec"].get("grant", {})
        return found

    @property
    def held(self) -> bool:
        found = self.mignode()
        return bool(found.get("status", {}).get("grant", {}).get("state") == "Held")


def joined(world: World, *names: str) -> tuple[Controller, list[Agent]]:
    """A pool whose nodes have their MIGNodes and plans, and a controller that has seen it."""
    world.add_config()
    agents = [world.add_node(name) for name in names]
    controller = world.controller()
    controller.run()
    for agent in agents:
        agent.plan()
    controller.sync()
    return controller, agents


def applied(world: World, *names: str) -> tuple[Controller, list[Agent]]:
    """A pool whose nodes have their layout under standing grants."""
    controller, agents = joined(world, *names)
    for _ in agents:
        controller.run()
        controller.run()
        for agent in agents:
            if agent.take_up():
                agent.release()
    controller.run()
    controller.sync()
    return controller, agents
