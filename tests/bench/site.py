"""A node of eight A100-80 with its agent on a real control plane, all simulated hardware without latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE, POD
from mig_manager.kube.port import Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.pod_spec import SHUTDOWN_SECONDS
from tests.e2e.plane import PRODUCT, WORK, Plane, agent_pod
from tests.e2e.processes import Process
from tests.e2e.waiting import until

POOL = "bench.example/pool"
CARDS = 8
NODE_NAME = "bench"
SYNC_S = 0.1
"""How often the simulated kubelet looks at its pods."""

LAYOUTS: Mapping[str, Mapping[str, int]] = {
    "wide": {"3g.40gb": 2},
    "narrow": {"3g.40gb": 1, "1g.10gb": 3},
}
"""On every card one 3g stays, and the other makes room for three small ones, or takes it back."""


def config(name: str, profile: str) -> Object:
    """A MIGConfig for the nodes whose pool has its name."""
    profiles = {
        layout: {"gpus": [{"slices": [{"slice": kind, "count": count} for kind, count in slices.items()]}]}
        for layout, slices in LAYOUTS.items()
    }
    spec = {
        "nodeSelector": {"matchLabels": {POOL: name}},
        "profile": profile,
        "profiles": profiles,
        "disruption": {"drain": {"force": True}},  # pods here have no controller
    }
    return {"metadata": {"name": name}, "spec": spec}


@dataclass
class Site:
    """The node, and what a person does to it."""

    plane: Plane
    agent: Process
    directory: Path

    def want(self, profile: str) -> None:
        """Select another profile."""
        self.plane.person.patch(MIG_CONFIG, NODE_NAME, {"spec": {"profile": profile}})

    def done(self, profile: str) -> None:
        """Wait until the node has that profile, says so, and is free of us."""
        until(f"the node to be {profile}", lambda: self._is(profile), explain=self.explain)

    def restart_agent(self, *, proxied: bool) -> None:
        """Start the agent anew, and wait until it has found everything in order."""
        before = self._found_in_order()
        self.agent.kill()
        self.agent.proxied = proxied
        self.agent.start()
        until("the agent to be ready", lambda: self._found_in_order() > before, explain=self.explain)

    def pods(self, count: int, resource: str) -> None:
        """Let so many pods use one slice each, and wait until they run; those that are there already go on."""
        selector = {"kubernetes.io/hostname": NODE_NAME}
        limits = {resource: "1"}
        spec = {
            "containers": [{"name": "main", "image": "work", "resources": {"limits": limits}}],
            "nodeSelector": selector,
        }
        for number in range(count):
            metadata = {"name": f"pod-{number}", "annotations": {SHUTDOWN_SECONDS: "0"}}
            self.plane.person.create(POD, {"metadata": metadata, "spec": spec}, WORK)
        until("the pods to run", lambda: self._running() == count, explain=self.explain)

    def status(self) -> Object:
        """The MIGNode's status."""
        found: Object = self.plane.person.get(MIG_NODE, NODE_NAME).get("status", {})
        return found

    def explain(self) -> str:
        """What is to be seen when something does not happen."""
        logs = f"{self.agent.tail()}\n{self.plane.controller.tail()}"
        return f"{logs}\n{self.plane.person.get(MIG_NODE, NODE_NAME)}"

    def _found_in_order(self) -> int:
        """How often the agent has come to be Ready, which it logs; its log grows from start to start."""
        return self.agent.log.read_text().count("Ready at step")

    def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.plane.person.list(POD, WORK).items)

    def _is(self, profile: str) -> bool:
        labels = self.plane.person.get(NODE, NODE_NAME)["metadata"]["labels"]
        found = self.plane.person.get(MIG_NODE, NODE_NAME)
        status = found.get("status", {})
        ready = [c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"]
        desired = found["spec"]["desired"]
        return (
            (desired["profile"], labels.get("migmanager.io/applied-profile"), ready) == (profile, profile, ["True"])
            and status["observedGeneration"] == found["metadata"]["generation"]
            and status.get("grant", {}).get("state") == "Released"
        )


@contextmanager
def site(plane: Plane, directory: Path) -> Iterator[Site]:
    """The node in the layout ``wide`` and at rest; its agent and the controller run."""
    machine = Machine.create(directory / "box.sim", [f"A100-SXM4-80GB*{CARDS}"], mig=True)
    for card in range(CARDS):
        for profile, count in LAYOUTS["wide"].items():
            for _ in range(count):
                machine.add_instance(card, profile)
    with Fleet(plane.kubelet) as fleet:
        fleet.run(SYNC_S)
        simulated = fleet.add(NODE_NAME, machine, labels={POOL: NODE_NAME})
        until("the agent's pod", lambda: agent_pod(plane.person, NODE_NAME))
        arguments = ["agent", "--node", NODE_NAME, "--namespace", PRODUCT, "--sim", str(machine.store.path)]
        arguments += ["--state-dir", str(directory / "state")]
        arguments += ["--pod-resources", str(simulated.root / "pod-resources" / "kubelet.sock")]
        arguments += ["--proc-root", str(simulated.root / "proc")]

        def kubeconfig() -> Path:
            return plane.access.kubeconfig_for_service_account(PRODUCT, "agent", agent_pod(plane.person, NODE_NAME))

        with Process("agent", plane.access, directory / "agent.log", kubeconfig, arguments) as agent:
            plane.controller.start()
            agent.start()
            plane.person.create(MIG_CONFIG, config(NODE_NAME, "wide"))
            made = Site(plane, agent, directory)
            made.done("wide")
            yield made
        plane.person.delete(MIG_CONFIG, NODE_NAME)
        simulated.remove()
