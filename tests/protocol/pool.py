"""A pool of nodes with the product's real controller and agents, every one of which goes on only when told to."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import EVENT, LEASE, MIG_CONFIG, MIG_NODE
from mig_manager.kube.memory import MemoryCluster, Store
from tests.protocol.actors import Actor
from tests.protocol.host import POOL, Clock, Host
from tests.protocol.leader import Leader
from tests.protocol.observer import Observer

CONFIG = "pool"
LAYOUTS = {
    "A": [{"slice": "2g", "count": 2}],
    "B": [{"slice": "1g", "count": 4}],
    "C": [{"slice": "1g", "count": 2}, {"slice": "2g", "count": 1}],
}
NAMES = {5: "2g", 14: "1g"}
"""GPU instance profile ids of an A30: NVML_GPU_INSTANCE_PROFILE ids as nvidia-smi lists them."""

A_WHOLE_PASS = 1000


class Pool:
    """``size`` nodes, one of which may be out at a time; the MIGConfig wants layout A at first."""

    def __init__(self, size: int) -> None:
        self.clock = Clock()
        self.store = Store(now=self.clock.now)
        self.people = MemoryCluster(self.store, "kubectl")
        self.hosts: dict[str, Host] = {}
        self.observer = Observer(self.store, self.hosts, max_unavailable=1)
        for number in range(1, size + 1):
            name = f"n{number}"
            self.hosts[name] = Host(name, self.store, self.clock, Actor(self.observer.look))
        self.layout = "A"
        self.create_config()
        self._leaders = 0
        self.former: Leader | None = None
        self.leader = self._new_leader()

    # -- processes --

    def agent(self, name: str, turns: int = A_WHOLE_PASS, until: str = "") -> None:
        """Let an agent go on."""
        host = self.hosts[name]
        host.actor.go(host.agent.run_pass, turns, until)
        if not host.actor.busy and host.actor.was_killed:
            host.restart_agent()

    def kill_agent(self, name: str) -> None:
        """SIGKILL; a new process starts."""
        self.hosts[name].actor.die()
        self.hosts[name].restart_agent()

    def lose_lease(self) -> None:
        """Another controller has the Lease; the one that had it goes on for a while with what it knows."""
        if self.former is not None:
            self.former.actor.die()
        self.former, self.leader = self.leader, self._new_leader()

    def former_exits(self) -> None:
        """The controller that had lost the Lease is gone."""
        if self.former is not None:
            self.former.actor.die()
            self.former = None

    def restart_leader(self) -> None:
        """SIGKILL of the controller; its successor has another identity."""
        self.leader.actor.die()
        self.leader = self._new_leader()

    def _new_leader(self) -> Leader:
        self._leaders += 1
        return Leader(self._leaders, self.store, self.clock, Actor(self.observer.look))

    # -- people --

    @property
    def config(self) -> dict[str, Any] | None:
        """The MIGConfig."""
        try:
            return self.people.get(MIG_CONFIG, CONFIG)
        except NotFoundError:
            return None

    def create_config(self) -> None:
        """Create the MIGConfig."""
        spec = {
            "nodeSelector": {"matchLabels": POOL},
            "profile": self.layout,
            "profiles": {name: {"gpus": [{"slices": slices}]} for name, slices in LAYOUTS.items()},
            "disruption": {"maxUnavailable": 1, "drain": {"force": True}},  # pods here have no controller
        }
        self.people.create(MIG_CONFIG, {"metadata": {"name": CONFIG}, "spec": spec})

    def delete_config(self) -> None:
        """Delete the MIGConfig."""
        self.people.delete(MIG_CONFIG, CONFIG)

    def want(self, layout: str) -> None:
        """Edit the MIGConfig."""
        self.layout = layout
        self.people.patch(MIG_CONFIG, CONFIG, {"spec": {"profile": layout}})

    def pause(self, *, paused: bool) -> None:
        """Pause the MIGConfig, or let it go on."""
        self.people.patch(MIG_CONFIG, CONFIG, {"spec": {"paused": paused}})

    # -- the whole --

    def fair_round(self, seconds: float = 5.0, asleep: str = "") -> None:
        """Everybody sees everything and goes on to the end of a pass, but for an agent that is asleep."""
        self.leader.see_everything()
        self.leader.go(A_WHOLE_PASS)
        for name, host in self.hosts.items():
            if name != asleep:
                self.agent(name)
            host.tick()
        self.people.collect_garbage()
        self.clock.sleep(seconds)
        self.observer.look()

    def writes(self) -> int:
        """How many versions of objects that matter were written so far."""
        return sum(v.key[0] not in (EVENT, LEASE) for v in self.store._versions)

    def complaints(self) -> list[str]:
        """What is not yet as it shall be in the end."""
        return [f"{name}: {text}" for name in self.hosts for text in self._complaints(name)]

    def _complaints(self, name: str) -> list[str]:
        host, found = self.hosts[name], self.observer.left_behind(name)
        node = host.node
        if node["spec"].get("unschedulable") or node["spec"].get("taints"):
            found.append("closed to pods")
        mignode = self._mignode(name)
        if self.config is None:
            return [*found, "the MIGNode is still there"] if mignode is not None else found
        status = (mignode or {}).get("status", {})
        ready = [c["reason"] for c in status.get("conditions", ()) if c["type"] == "Ready" and c["status"] != "True"]
        there = Counter(NAMES.get(instance.profile_id, "?") for instance in host.instances)
        if mignode is None or not status.get("conditions") or ready:
            found.append(f"not Ready: {ready}")
        if Counter({s["slice"]: s["count"] for s in LAYOUTS[self.layout]}) != there:
            found.append(f"on the card: {dict(there)}")
        return found

    def _mignode(self, name: str) -> dict[str, Any] | None:
        try:
            return self.people.get(MIG_NODE, name)
        except NotFoundError:
            return None

    def close(self) -> None:
        """End all processes."""
        for actor in [h.actor for h in self.hosts.values()] + [c.actor for c in (self.leader, self.former) if c]:
            actor.die()
