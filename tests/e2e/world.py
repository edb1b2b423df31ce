"""One pool of simulated nodes with real agents, a real controller, and pods; everything of one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mig_manager.agent.program import JOURNAL
from mig_manager.controller.settings import LEASE_NAME
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import LEASE, MIG_CONFIG, MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.kube.port import Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.node import SimulatedNode
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.pod_spec import SHUTDOWN_SECONDS
from tests.e2e.hosts import Host, Slices, new_machine, offered, ours, reason
from tests.e2e.observer import POLL_S, Observer
from tests.e2e.plane import PRODUCT, WORK, Plane, agent_pod
from tests.e2e.processes import Process
from tests.e2e.waiting import DEADLINE_S, until

POOL = "e2e.example/pool"


class World:
    """A context manager that leaves nothing behind, and has the observer judge at its end.

    ``look_s`` is how often the kubelets look at their pods, and ``poll_s`` the observer at slices in use.
    """

    def __init__(
        self, plane: Plane, name: str, directory: Path, *, look_s: float = 0.15, poll_s: float = POLL_S
    ) -> None:
        self.plane = plane
        self.person = plane.person
        self.name = f"{name[:30].strip('-')}-{next(plane.numbers)}"
        self.hosts: dict[str, Host] = {}
        self._directory = directory
        self._stack = ExitStack()
        self.fleet = Fleet(plane.kubelet)
        self.observer = Observer(plane.recorder, WORK, poll_s)
        self._look_s = look_s
        self.controller = plane.controller
        self.processes: list[Process] = [self.controller]
        # The controller is older than this world, and its log longer.
        self._logs = {self.controller.name: self.controller.log_size()}
        self._configs: list[str] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self.fleet)
        self.fleet.run(self._look_s)
        if not self.controller.running:
            self.controller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        try:
            # Shown by pytest when the test fails.
            sys.stdout.write(self.explain())
            if kind is None:
                self.observer.judge()
                for process in self.processes:
                    assert [] == process.complaints(self._logs.get(process.name, 0)), process.name
        finally:
            self._clean()

    # -- what there is --

    def host(
        self,
        *gpus: str,
        slices: Sequence[Slices] = (),
        mig: bool = True,
        strategy: Strategy = Strategy.MIXED,
        taints: Sequence[Mapping[str, str]] = (),
        agent: bool = True,
    ) -> Host:
        """Another node of the pool, with MIG on and ``slices`` per card; its agent is started unless told otherwise."""
        name = f"{self.name}-n{len(self.hosts)}"
        machine = new_machine(self._directory / f"{name}.sim", *gpus, slices=slices, mig=mig)
        simulated = self.fleet.add(name, machine, strategy=strategy, labels={POOL: self.name}, taints=taints)
        directory = self._directory / name
        agent_process = self.agent_for(name, machine, simulated, directory)
        host = Host(name, machine, simulated, agent_process, directory / JOURNAL)
        self.hosts[name] = host
        self.observer.watch(simulated)
        if agent:
            self.start_agent(host)
        return host

    def agent_for(
        self, node: str, machine: Machine, simulated: SimulatedNode, directory: Path, what: str = "agent"
    ) -> Process:
        """An agent of that node, not started; ``directory`` is where it keeps what survives it."""
        arguments = ["agent", "--node", node, "--namespace", PRODUCT, "--sim", str(machine.store.path)]
        arguments += ["--state-dir", str(directory)]
        arguments += ["--pod-resources", str(simulated.root / "pod-resources" / "kubelet.sock")]
        arguments += ["--proc-root", str(simulated.root / "proc")]
        return self._process(f"{what} {node}", lambda: self._agent_kubeconfig(node), arguments)

    def kill_controller(self) -> None:
        """SIGKILL the controller, and free its Lease, so that nobody waits until it runs out."""
        self.controller.kill()
        with suppress(NotFoundError):
            self.person.delete(LEASE, LEASE_NAME, PRODUCT)

    def replace(self, host: Host, *gpus: str, slices: Sequence[Slices] = ()) -> Host:
        """Register another machine under the name of a node, with a new agent, and with nothing remembered."""
        host.agent.kill()
        machine = new_machine(self._directory / f"{host.name}-new.sim", *gpus, slices=slices)
        host.simulated.recreate(machine)
        directory = self._directory / f"{host.name}-new"
        agent = self.agent_for(host.name, machine, host.simulated, directory, "new agent")
        found = Host(host.name, machine, host.simulated, agent, directory / JOURNAL)
        self.hosts[host.name] = found
        self.start_agent(found)
        return found

    def start_agent(self, host: Host) -> None:
        """Start the node's agent as soon as its pod is there: its token is bound to that."""
        self.until("the agent's pod", lambda: agent_pod(self.person, host.name))
        host.agent.start()

    # -- what people do --

    def config(self, profile: str, *, name: str = "", **spec: Any) -> str:  # noqa: ANN401 - a MIGConfig's spec
        """Create a MIGConfig for the pool; its name. Pods here have no controller, so it consents to evicting those."""
        chosen = name or self.name
        consent = {"disruption": {"drain": {"force": True}}}
        body = {"nodeSelector": {"matchLabels": {POOL: self.name}}, "profile": profile, **consent, **spec}
        self.person.create(MIG_CONFIG, {"metadata": {"name": chosen}, "spec": body})
        self._configs.append(chosen)
        return chosen

    def edit(self, *, name: str = "", **spec: Any) -> None:  # noqa: ANN401 - a MIGConfig's spec
        """Change fields of the MIGConfig's spec."""
        self.person.patch(MIG_CONFIG, name or self.name, {"spec": spec})

    def pod(self, name: str, host: Host, *resources: str) -> str:
        """Create a pod on a node that uses one of each resource like ``mig-3g.40gb``; its name."""
        full = f"{self.name}-{name}"
        amounts = {f"nvidia.com/{resource}": "1" for resource in resources}
        container = {"name": "main", "image": "work", "resources": {"limits": amounts}}
        metadata = {"name": full, "labels": {"world": self.name}, "annotations": {SHUTDOWN_SECONDS: "0.3"}}
        selector = {"kubernetes.io/hostname": host.name}
        body = {"metadata": metadata, "spec": {"containers": [container], "nodeSelector": selector}}
        self.person.create(POD, body, WORK)
        return full

    def running(self, *pods: str) -> None:
        """Wait until these pods run."""
        for pod in pods:
            self.until(f"{pod} to run", partial(self._runs, pod))

    def bound(self, pod: str) -> bool:
        """Whether the scheduler has given the pod a node."""
        return bool(self.person.get(POD, pod, WORK)["spec"].get("nodeName"))

    def _runs(self, pod: str) -> bool:
        return self.phase(pod) == "Running"

    def phase(self, pod: str) -> str:
        """A pod's phase, ``Gone`` when there is no such pod."""
        try:
            return str(self.person.get(POD, pod, WORK)["status"]["phase"])
        except NotFoundError:
            return "Gone"

    def budget(self, min_available: int) -> None:
        """A PodDisruptionBudget for the pods of this world; it is in force on return."""
        selector = {"world": self.name}
        body = {
            "apiVersion": "policy/v1",
            "metadata": {"name": self.name},
            "spec": {"minAvailable": min_available, "selector": {"matchLabels": selector}},
        }
        self.person.create(POD_DISRUPTION_BUDGET, body, WORK)
        self.observer.budgets.append((selector, min_available))
        self.until("the budget to be counted", self._budget_counted)

    def cordon(self, host: Host, *, on: bool = True) -> None:
        """What ``kubectl cordon`` and ``uncordon`` do."""
        self.plane.kubectl("cordon" if on else "uncordon", host.name)

    def label(self, host: Host, **labels: str | None) -> None:
        """Set labels of a node, or remove them; ``_`` stands for ``migmanager.io/``."""
        changes = {k.replace("_", "migmanager.io/", 1) if k.startswith("_") else k: v for k, v in labels.items()}
        self.person.patch(NODE, host.name, {"metadata": {"labels": changes}})

    # -- what is to be seen --

    def until(self, what: str, true: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
        """Wait for a condition."""
        until(what, true, explain=self.explain, deadline_s=deadline_s)

    def node(self, host: Host) -> Object:
        """The Node."""
        return self.person.get(NODE, host.name)

    def mignode(self, host: Host) -> Object:
        """The MIGNode."""
        return self.person.get(MIG_NODE, host.name)

    def status(self, host: Host) -> dict[str, Any]:
        """The status of the MIGNode."""
        found: dict[str, Any] = self.mignode(host).get("status", {})
        return found

    def reason(self, host: Host) -> str:
        """Why the MIGNode is not Ready; ``Ready`` when it is."""
        return reason(self.status(host))

    def pool_reason(self, name: str = "") -> str:
        """The pool in one word: what ``kubectl get migconfig`` calls STATUS."""
        config = self.person.get(MIG_CONFIG, name or self.name)
        conditions = config.get("status", {}).get("conditions", ())
        fresh = config.get("status", {}).get("observedGeneration") == config["metadata"]["generation"]
        return next((str(c["reason"]) for c in conditions if fresh and c["type"] == "Ready"), "")

    def labels(self, host: Host) -> dict[str, str]:
        """The node's labels that are ours."""
        return ours(self.node(host))

    def offered(self, host: Host) -> dict[str, int]:
        """What the Node says can be had, without zeros."""
        return offered(self.node(host))

    def ready(self, name: str = "") -> None:
        """Wait until the pool is Ready."""
        self.until("the pool to be ready", lambda: self.pool_reason(name) == "Ready")

    def finished(self, host: Host, slices: Slices, profile: str = "", **others: int) -> None:
        """Wait until the node ``has`` this."""
        self.until(f"{host.name} to have {dict(slices)}", lambda: self.has(host, slices, profile, **others))

    def has(self, host: Host, slices: Slices, profile: str = "", **others: int) -> bool:
        """Whether the node has exactly these slices, offers and labels them, and nothing is being done there.

        ``others`` are resources beside them: ``gpu=1``.
        """
        if host.counts() != slices:
            return False
        node = self.node(host)
        labels = ours(node)
        said = {k.removeprefix("mig-"): int(v) for k, v in labels.items() if k.startswith("mig-")}
        if said != slices or labels.get("state") != "ready":
            return False
        if offered(node) != {f"mig-{name}": count for name, count in slices.items()} | others:
            return False
        status = self.status(host)
        free = status.get("grant", {}).get("state") == "Released"
        return free and reason(status) == "Ready" and profile in ("", labels.get("applied-profile"))

    def explain(self) -> str:
        """What a person would look at: objects in short, and the ends of the logs."""
        parts = [process.tail() for process in self.processes]
        for host in self.hosts.values():
            with suppress(NotFoundError):
                node = self.node(host)
                parts.append(f"{host.name}: {node['spec']} {node['metadata'].get('annotations')} {self.labels(host)}")
                parts.append(f"  {host.counts()} {self.offered(host)}")
                parts.append(f"  {self.mignode(host)['spec'].get('grant')}")
                parts.append(f"  {self.status(host)}")
        with suppress(NotFoundError):
            parts.append(f"budget: {self.person.get(POD_DISRUPTION_BUDGET, self.name, WORK)['status']}")
        pods = self.person.list(POD, WORK, labels=f"world={self.name}").items
        parts += [f"{pod['metadata']['name']}: {pod['status']}" for pod in pods]
        for config in self._configs:
            with suppress(NotFoundError):
                parts.append(f"{config}: {self.person.get(MIG_CONFIG, config).get('status')}")
        return "\n".join(parts)

    # -- within --

    def _process(self, name: str, kubeconfig: Callable[[], Path], arguments: Sequence[str]) -> Process:
        log = self._directory / f"{name.replace(' ', '-')}.log"
        process = self._stack.enter_context(Process(name, self.plane.access, log, kubeconfig, arguments))
        self.processes.append(process)
        return process

    def _agent_kubeconfig(self, node: str) -> Path:
        pod = agent_pod(self.person, node)
        assert pod is not None, f"no agent's pod on {node}"
        return self.plane.access.kubeconfig_for_service_account(PRODUCT, "agent", pod)

    def _budget_counted(self) -> bool:
        status = self.person.get(POD_DISRUPTION_BUDGET, self.name, WORK).get("status", {})
        return bool(status.get("disruptionsAllowed"))

    def _clean(self) -> None:
        for host in self.hosts.values():
            host.agent.kill()
        for config in self._configs:
            with suppress(NotFoundError):
                self.person.delete(MIG_CONFIG, config)
        self.observer.stop()
        for host in self.hosts.values():
            host.simulated.remove()
            with suppress(NotFoundError, ConflictError):
                self.person.delete(MIG_NODE, host.name)
        for pod in self.person.list(POD, WORK, labels=f"world={self.name}").items:
            with suppress(NotFoundError):
                self.person.delete(POD, pod["metadata"]["name"], WORK, grace_s=0)
        with suppress(NotFoundError):
            self.person.delete(POD_DISRUPTION_BUDGET, self.name, WORK)
        self._stack.close()
