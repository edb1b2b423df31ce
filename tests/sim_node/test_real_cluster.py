"""On the real API server, controller manager and scheduler the simulated nodes do as in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import DAEMON_SET, NODE, POD
from mig_manager.kube.podresources.client import PodResources
from mig_manager.kube.port import Object
from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import PLUGIN_DAEMON_SET, PLUGIN_GATE, device_plugin_daemon_set
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.pod_spec import SHUTDOWN_SECONDS
from tests.sim_node.world import LARGE, SMALL, container

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Place:
    """A cluster, and a namespace and a node name that belong to one test."""

    cluster: KubernetesCluster
    namespace: str
    node: str

    def devices(self, kind: str = "allocatable") -> dict[str, int]:
        """What the Node says of devices."""
        amounts = self.cluster.get(NODE, self.node)["status"][kind]
        return {k: int(v) for k, v in amounts.items() if k.startswith("nvidia.com/")}

    def phase(self, name: str) -> str:
        """A pod's phase, ``Gone`` when there is no such pod."""
        try:
            return str(self.pod(name)["status"]["phase"])
        except NotFoundError:
            return "Gone"

    def pod(self, name: str) -> Object:
        """A pod."""
        return self.cluster.get(POD, name, self.namespace)

    def plugin_pods(self) -> list[Object]:
        """The device plugin's pods."""
        return list(self.cluster.list(POD, self.namespace, labels=f"app={PLUGIN_DAEMON_SET}").items)


@pytest.fixture
def place(control_plane: Access, request: pytest.FixtureRequest) -> Iterator[Place]:
    """The cluster with a namespace, and with a device plugin for this test's node alone."""
    name = f"sim-node-{request.function.__name__.removeprefix('test_').replace('_', '-')}"
    status, answer = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert 201 == status, answer
    cluster = KubernetesCluster.from_kubeconfig("kubelet", control_plane.kubeconfig)
    only = {"kubernetes.io/hostname": name}
    cluster.create(DAEMON_SET, device_plugin_daemon_set(Strategy.MIXED, name, only), name)
    yield Place(cluster, name, name)
    cluster.delete(DAEMON_SET, PLUGIN_DAEMON_SET, name)


def until(what: str, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.05)


def machine_with(profile: str, seed: str = "0") -> Machine:
    machine = Machine.create(None, ["A100-SXM4-80GB"], mig=True, seed=seed)
    machine.add_instance(0, profile)
    return machine


def test_the_whole_loop(place: Place) -> None:
    """DaemonSet pod, devices, scheduling, grace, repartition with the plugin paused by its gate label, reboot."""
    machine = machine_with("3g.40gb")
    with Fleet(place.cluster) as fleet:
        node = fleet.add(place.node, machine)
        fleet.run(interval_s=0.1)
        until("devices", lambda: place.devices() == {LARGE: 1})

        work = {
            "metadata": {"name": "work", "namespace": place.namespace, "annotations": {SHUTDOWN_SECONDS: "1"}},
            "spec": {
                "containers": [container(_3g_40gb=1)],
                "nodeSelector": {"kubernetes.io/hostname": place.node},
            },
        }
        place.cluster.create(POD, work, place.namespace)
        until("the pod to run", lambda: place.phase("work") == "Running")
        with PodResources(node.root / "pod-resources" / "kubelet.sock") as client:
            held = {p.full_name: p.devices for p in client.list() if p.devices}
        assert [f"{place.namespace}/work"] == list(held)
        assert [f"{place.namespace}/work"] == [c.name for c in machine.card(0).clients]

        place.cluster.evict(place.namespace, "work", place.pod("work")["metadata"]["uid"])
        assert "deletionTimestamp" in place.pod("work")["metadata"]
        until("the pod to be gone", lambda: place.phase("work") == "Gone")
        assert [] == machine.card(0).clients

        def patches() -> int:
            return sum(place.cluster.requests["patch", kind.name] for kind in (NODE, POD))

        def idle() -> bool:
            before = patches()
            fleet.sync()
            return before == patches()

        assert patches() > 0
        # Whatever the API server adds to a status or leaves out of it: once all is reported, passes write nothing.
        until("an idle pass", idle)

        (old,) = place.plugin_pods()
        place.cluster.patch(NODE, place.node, {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
        until("the plugin to be gone", lambda: not place.plugin_pods())
        until("no devices", lambda: place.devices() == {LARGE: 0})
        assert {LARGE: 1} == place.devices("capacity")
        machine.remove_instance(0, start=machine.card(0).instances[0].start)
        machine.add_instance(0, "1g.10gb")
        place.cluster.patch(NODE, place.node, {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
        until("the new devices", lambda: place.devices() == {LARGE: 0, SMALL: 1})
        (new,) = place.plugin_pods()
        assert old["metadata"]["uid"] != new["metadata"]["uid"]

        def boot_id() -> str:
            return str(place.cluster.get(NODE, place.node)["status"]["nodeInfo"]["bootID"])

        before = boot_id()
        node.reboot()
        until("the reboot", lambda: boot_id() != before)
        until("no devices", lambda: place.devices() == {LARGE: 0, SMALL: 0})
        node.remove()


def test_recreation(place: Place) -> None:
    """Another node of the same name has another UID, and the DaemonSet's pod comes again."""
    with Fleet(place.cluster) as fleet:
        node = fleet.add(place.node, machine_with("3g.40gb"))
        fleet.run(interval_s=0.1)
        until("devices", lambda: place.devices() == {LARGE: 1})
        before = place.cluster.get(NODE, place.node)["metadata"]["uid"]
        node.recreate(machine_with("1g.10gb", seed="other"))
        until("the other devices", lambda: place.devices() == {SMALL: 1})
        assert before != place.cluster.get(NODE, place.node)["metadata"]["uid"]
        node.remove()
