"""Everything that runs during the demo: control plane, simulated nodes, the product as its manifests install it.

Agents and controller are the real programs. Their pods are made by the shipped DaemonSet and Deployment; the simulated
kubelets cannot run images, so for every such pod the program is started here, with the token that the pod would have.
What it may do is therefore what the shipped roles and the policy allow. While people try things by hand the programs
follow their pods: one whose pod is deleted ends, and one that is killed starts again. All files are in the control
plane's directory, which goes with it, however the demo ends.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mig_manager.controller.settings import AGENT_SELECTOR
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import DAEMON_SET, LEASE, NODE, POD
from mig_manager.kube.port import Object
from mig_manager.resources import shipped
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from mig_manager.sim.demo import scene
from mig_manager.sim.demo.errors import DemoError
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, device_plugin_daemon_set
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.node import SimulatedNode
from mig_manager.sim.node.plugin_devices import Strategy

NAMESPACE = "mig-manager"
MANIFESTS = "gpu-operator"
CONTROLLER = "controller"
TIMEOUT_S = 120.0
POLL_S = 0.2
LAST_LINES = 5

RESTART_S = 10.0
"""So long after its start a program that has ended is started again, as kubelets do with containers that crash."""

CLIENTS_FILE = "clients.yaml"
"""Where people may write a list of GPU clients of their own, which agents read at their start."""


class Stage:
    """The running demo; a context manager that stops everything it started."""

    def __init__(self, programs: Programs) -> None:
        self._closing = ExitStack()
        self._plane = ControlPlane(programs, sorted(shipped("crds").glob("*.yaml")))
        self.kubectl_path = find_kubectl()
        self._fleet: Fleet
        self.cluster: KubernetesCluster
        self.machines: dict[str, Machine] = {}
        self._boots: dict[str, str] = {}
        self._started: dict[str, _Started] = {}

    @property
    def directory(self) -> Path:
        """Where everything is as long as the demo runs: logs, kubeconfigs, the machines' files."""
        return self._plane.access.directory

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._plane.access.kubeconfig

    def __enter__(self) -> Self:
        self._closing.enter_context(self._plane)
        # The Kubernetes client keeps certificates in temporary files; should this process be killed, they go too.
        self._closing.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(self.directory)
        # The simulated nodes run in this process; what they say would be in the middle of the story.
        log = logging.FileHandler(self.directory / "nodes.log")
        logging.getLogger().addHandler(log)
        self._closing.callback(log.close)
        self._closing.callback(logging.getLogger().removeHandler, log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    def install(self) -> None:
        """Install the product by its manifests, on a cluster that has what NVIDIA's GPU operator brings."""
        self.kubectl("apply", "-f", str(scene.CLUSTER))
        self.kubectl("apply", "--server-side", "-k", str(shipped("deploy") / MANIFESTS))

    def build_nodes(self) -> None:
        """Have the machines, and their Nodes with kubelets and device plugins."""
        self.cluster = KubernetesCluster.from_kubeconfig("demo", self.kubeconfig)
        self._closing.callback(self.cluster.close)
        self._fleet = self._closing.enter_context(Fleet(self.cluster, directory=self.directory / "nodes"))
        self.cluster.create(DAEMON_SET, device_plugin_daemon_set(Strategy.MIXED), OPERATOR_NAMESPACE)
        for node in scene.nodes():
            machine = node.build(self.directory / f"{node.name}.sim")
            self.machines[node.name] = machine
            self._boots[node.name] = machine.read().boot_id
            self._fleet.add(node.name, machine, labels=node.labels)
        self._fleet.run()

    def start_programs(self) -> None:
        """Start agents and controller as their pods come up, and meanwhile pods that use slices."""
        waiting = set(self.machines)
        self.wait("the controller's pod to run", self._start_controller)
        self.wait("the agents' pods to run", lambda: self._start_agents(waiting))
        self.wait("the device plugins to come up", self._plugins_run)
        self.kubectl("apply", "-f", str(scene.WORKLOADS))
        self.wait("the pods that use slices to run", self._workloads_run)
        self.wait("the controller to take its Lease", self._is_led)

    def node(self, name: str) -> SimulatedNode:
        """A simulated node."""
        return self._fleet[name]

    def reboot(self, name: str) -> None:
        """Reboot a node, agent and all."""
        program = f"agent-{name}"
        (pod,) = (p for p in self._agent_pods() if p["spec"]["nodeName"] == name)
        self._plane.end(program)
        self.node(name).reboot()
        self._boots[name] = self.machines[name].read().boot_id
        self._start_agent(pod)

    def follow(self) -> None:
        """Do what kubelets and machines would after something was done by hand. ClusterError.

        A machine that was rebooted goes down with its processes and its agent. A program whose pod is gone ends; one
        that has ended, or whose pod is another by now, starts again, as a container would.
        """
        for name, machine in self.machines.items():
            boot = machine.read().boot_id
            if boot != self._boots[name]:
                self._boots[name] = boot
                self._stop(f"agent-{name}")
                self.node(name).follow_reboot()
        pods = {f"agent-{pod['spec']['nodeName']}": pod for pod in self._agent_pods() if _stays(pod)}
        pods.update((CONTROLLER, pod) for pod in self._controller_pods() if _stays(pod))
        for program, started in list(self._started.items()):
            pod = pods.get(program)
            if pod is None or pod["metadata"]["uid"] != started.pod_uid:
                self._stop(program)
            elif self._plane.collect(program):
                started.ended = True
        for program, pod in pods.items():
            known = self._started.get(program)
            if known is None or (known.ended and time.monotonic() > known.at + RESTART_S):
                self._start_controller_of(pod) if program == CONTROLLER else self._start_agent(pod)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as administrator and return what it prints; DemoError with its complaint."""
        command = [str(self.kubectl_path), f"--kubeconfig={self.kubeconfig}", *arguments]
        act = f"running kubectl {' '.join(arguments)}"
        try:
            done = subprocess.run(  # noqa: S603 - no shell
                command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"{act}: no answer within {TIMEOUT_S:g} s") from error
        if done.returncode:
            raise DemoError(f"{act}: {done.stderr.strip()}")
        return done.stdout

    def check(self) -> None:
        """Raise ControlPlaneError when a program has ended, and whatever ended the simulated nodes."""
        self._plane.check()
        if not self._fleet.running:
            self._fleet.stop()

    def wait(self, what: str, true: Callable[[], bool]) -> None:
        """Look again and again until it is true; DemoError after two minutes."""
        deadline = time.monotonic() + TIMEOUT_S
        while not true():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"waiting for {what}: not after {TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)

    def last_words(self) -> str:
        """The ends of the product's logs."""
        words = []
        for log in sorted([*self.directory.glob("agent-*.log"), *self.directory.glob(f"{CONTROLLER}.log")]):
            words += [f"{log.stem}: {line}" for line in log.read_text(errors="replace").splitlines()[-LAST_LINES:]]
        return "\n".join(words)

    def _plugins_run(self) -> bool:
        """Whether every node offers something: one without would get none of the pods that are to be there."""
        nodes = self.cluster.list(NODE).items
        return all(any(a != "0" for r, a in n["status"]["allocatable"].items() if "/" in r) for n in nodes)

    def _workloads_run(self) -> bool:
        return all(_runs(pod) for pod in self.cluster.list(POD, scene.NAMESPACE).items)

    def _is_led(self) -> bool:
        leases = self.cluster.list(LEASE, NAMESPACE).items
        return any(lease["spec"].get("holderIdentity") for lease in leases)

    def _start_agents(self, waiting: set[str]) -> bool:
        for pod in self._agent_pods():
            node = pod["spec"].get("nodeName")
            if node in waiting and _runs(pod):
                self._start_agent(pod)
                waiting.remove(node)
        return not waiting

    def _agent_pods(self) -> tuple[Object, ...]:
        return self.cluster.list(POD, NAMESPACE, labels=AGENT_SELECTOR).items

    def _controller_pods(self) -> tuple[Object, ...]:
        labels = f"app.kubernetes.io/component={CONTROLLER}"
        return self.cluster.list(POD, NAMESPACE, labels=labels).items

    def _stop(self, program: str) -> None:
        """End a program, if it runs."""
        if self._started.pop(program, None) is not None:
            self._plane.end(program)

    def _start_agent(self, pod: Object) -> None:
        name = pod["spec"]["nodeName"]
        clients = self.directory / CLIENTS_FILE
        self._run(
            "agent",
            f"agent-{name}",
            pod,
            {
                "--node": name,
                "--sim": str(self.directory / f"{name}.sim"),
                "--state-dir": str(self.directory / f"{name}.state"),
                "--pod-resources": str(self.node(name).kubelet.pod_resources / "kubelet.sock"),
                "--proc-root": str(self.node(name).kubelet.proc),
                **({"--clients": str(clients)} if clients.exists() else {}),
            },
        )

    def _start_controller(self) -> bool:
        running = [pod for pod in self._controller_pods() if _runs(pod)]
        if running:
            self._start_controller_of(running[0])
        return bool(running)

    def _start_controller_of(self, pod: Object) -> None:
        self._run(CONTROLLER, CONTROLLER, pod, {"--namespace": NAMESPACE})

    def _run(self, verb: str, name: str, pod: Object, options: Mapping[str, str]) -> None:
        account = pod["spec"]["serviceAccountName"]
        kubeconfig = self._plane.access.kubeconfig_for_service_account(NAMESPACE, account, pod)
        words = [word for option in {**options, "--kubeconfig": str(kubeconfig)}.items() for word in option]
        self._plane.run_beside(name, [sys.executable, "-m", "mig_manager", verb, *words])
        self._started[name] = _Started(pod["metadata"]["uid"], time.monotonic())


@dataclass(slots=True)
class _Started:
    """A program, for which pod it was started and when; ``ended`` says that it has ended since."""

    pod_uid: str
    at: float
    ended: bool = False


def _runs(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _stays(pod: Object) -> bool:
    return _runs(pod) and "deletionTimestamp" not in pod["metadata"]
