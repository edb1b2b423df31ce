"""A control plane of these tests alone, with the product deployed as documented and the GPU clients of a GPU operator.

Alone, because controller, agents' DaemonSet and admission policy concern every node and MIGConfig of a cluster.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mig_manager.agent.names import STARTUP_TAINT
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import DAEMON_SET, POD
from mig_manager.kube.port import Object
from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from mig_manager.sim.node.clients import (
    OPERATOR_NAMESPACE,
    STRATEGY_LABEL,
    device_plugin_daemon_set,
    exporter_daemon_set,
)
from mig_manager.sim.node.plugin_devices import Strategy
from tests.conftest import CRDS
from tests.deploy.manifests import DEPLOY
from tests.e2e.processes import Process
from tests.e2e.recorder import Recorder
from tests.e2e.waiting import until

PRODUCT = "mig-manager"
WORK = "work"
PERSON = "kubectl"
"""The field manager of what a person does in these tests."""


@dataclass(frozen=True)
class Plane:
    """The cluster: ``person`` is its administrator, ``kubelet`` what the simulated nodes use.

    There is one controller for all tests, as it decides about every MIGConfig; a test finds it running.
    """

    access: Access
    person: KubernetesCluster
    kubelet: KubernetesCluster
    recorder: Recorder
    controller: Process
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as administrator and return what it prints; it must succeed."""
        command = [str(find_kubectl()), f"--kubeconfig={self.access.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stderr
        return done.stdout


@contextmanager
def deployed(programs: Programs) -> Iterator[Plane]:
    """A running control plane on which ``deploy/gpu-operator`` was installed.

    The controller's Deployment is taken away again: here it is a process that tests start and kill. The agents'
    DaemonSet stays: its pods are what the agents' tokens are bound to.
    """
    with ControlPlane(programs, CRDS) as control_plane:
        access = control_plane.access
        person = KubernetesCluster.from_kubeconfig(PERSON, access.kubeconfig)
        kubelet = KubernetesCluster.from_kubeconfig("kubelet", access.kubeconfig)
        for name in (OPERATOR_NAMESPACE, WORK):
            _post(access, "/api/v1/namespaces", {"metadata": {"name": name}})
        runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
        _post(access, "/apis/node.k8s.io/v1/runtimeclasses", runtime)
        with Recorder(access) as recorder, controller_process(access, "controller") as controller:
            plane = Plane(access, person, kubelet, recorder, controller)
            plane.kubectl("apply", "--server-side", "-k", str(DEPLOY / "gpu-operator"))
            plane.kubectl("--namespace", PRODUCT, "delete", "deployment", "--all")
            for daemon_set in _clients():
                person.create(DAEMON_SET, _tolerant(daemon_set), OPERATOR_NAMESPACE)
            until("the namespace's ServiceAccount", lambda: _has_account(access))
            yield plane
        person.close()
        kubelet.close()


def controller_process(access: Access, name: str) -> Process:
    """A controller that has not been started."""
    log = access.directory / f"{name}.process.log"
    arguments = ["controller", "--namespace", PRODUCT]
    return Process(name, access, log, lambda: access.kubeconfig_for_service_account(PRODUCT, "controller"), arguments)


def agent_pod(person: KubernetesCluster, node: str) -> Object | None:
    """The pod of the agents' DaemonSet on a node."""
    pods = person.list(POD, PRODUCT, fields=f"spec.nodeName={node}").items
    there = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
    return next((p for p in there if p.get("status", {}).get("phase") == "Running"), None)


def _clients() -> Iterator[Object]:
    """The GPU operator's DaemonSets; two device plugins, of which each node gets the one for its strategy."""
    for strategy in (Strategy.MIXED, Strategy.SINGLE):
        body = device_plugin_daemon_set(strategy, only={STRATEGY_LABEL: str(strategy)})
        body["metadata"]["name"] += f"-{strategy}"
        for labels in (body["spec"]["selector"]["matchLabels"], body["spec"]["template"]["metadata"]["labels"]):
            labels["strategy"] = str(strategy)
        yield body
    yield exporter_daemon_set()


def _tolerant(body: Object) -> Object:
    """The DaemonSet as the documentation asks for it: nodes that are not ready yet need their clients."""
    body["spec"]["template"]["spec"]["tolerations"].append({"key": STARTUP_TAINT, "operator": "Exists"})
    return body


def _has_account(access: Access) -> bool:
    return access.request("GET", f"/api/v1/namespaces/{WORK}/serviceaccounts/default")[0] == 200


def _post(access: Access, path: str, body: dict[str, Any]) -> None:
    status, answer = access.request("POST", path, body)
    assert 201 == status, answer
