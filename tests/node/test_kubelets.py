"""What the product relies on a kubelet for: the same tests on the real one and on the simulated one.

Both are nodes of one cluster, with the same device plugin and the same API server, so that a difference is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.podresources import podresources_pb2 as pb
from mig_manager.kube.podresources.client import DEADLINE_S, PodResources
from mig_manager.kube.podresources.values import PodDevices
from mig_manager.kube.port import Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, PLUGIN_DAEMON_SET, PLUGIN_GATE
from mig_manager.sim.node.fleet import Fleet
from mig_manager.sim.node.pod_spec import INIT_SECONDS, SHUTDOWN_SECONDS
from mig_manager.sim.node.topology import TopologyPolicy
from tests.node.cluster import WORK, RealCluster
from tests.node.conftest import GPU
from tests.node.images import PRODUCT_IMAGE
from tests.node.real import RealNode
from tests.node.workloads import pod_spec
from tests.sim_node.world import LARGE, SMALL

INIT_S = 4


@dataclass(frozen=True)
class Kubelet:
    """A kubelet, real or simulated, with its machine and its files."""

    cluster: RealCluster
    node: str
    machine: Machine
    root: Path
    restart: Callable[[], None]

    def devices(self, kind: str) -> dict[str, int]:
        """What the Node's ``capacity`` or ``allocatable`` says of devices."""
        amounts = self.cluster.person.get(NODE, self.node)["status"][kind]
        return {k: int(v) for k, v in amounts.items() if k.startswith("nvidia.com/")}

    def until(self, what: str, true: Callable[[], object]) -> None:
        """Wait for a condition."""
        self.cluster.until(f"{what} on {self.node}", true)

    def until_offered(self, amounts: dict[str, int]) -> None:
        """Wait until the Node's allocatable says exactly this, zeros left out."""
        self.until(f"{amounts}", lambda: {k: v for k, v in self.devices("allocatable").items() if v} == amounts)

    def slices(self, *cards: Sequence[str]) -> None:
        """Replace the instances of the cards, and let the device plugin see it."""
        self.pause_plugin()
        for gpu, profiles in enumerate(cards):
            for instance in list(self.machine.card(gpu).instances):
                self.machine.remove_instance(gpu, start=instance.start)
            for profile in profiles:
                self.machine.add_instance(gpu, profile)
        self.resume_plugin()

    def pause_plugin(self) -> None:
        """Send the device plugin away, as the agent does."""
        self.cluster.person.patch(NODE, self.node, {"metadata": {"labels": {PLUGIN_GATE: "paused"}}})
        self.until("no plugin", lambda: not self.plugin_pods())
        self.until_offered({})

    def resume_plugin(self) -> None:
        """Let the device plugin come back."""
        self.cluster.person.patch(NODE, self.node, {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
        self.until("the plugin", self.plugin_pods)

    def plugin_pods(self) -> list[str]:
        """The UIDs of the device plugin's pods here."""
        pods = self.cluster.person.list(POD, OPERATOR_NAMESPACE, labels=f"app={PLUGIN_DAEMON_SET}").items
        return [p["metadata"]["uid"] for p in pods if p["spec"].get("nodeName") == self.node]

    def pod(self, name: str, *resources: str, init: str = "", count: int = 1) -> Object:
        """Bind a pod to the node past the scheduler, which counts what the kubelet may not have any more."""
        spec: dict[str, Any] = {**pod_spec(*resources, count=count), "nodeName": self.node}
        if init:
            waits = {"name": "first", "image": PRODUCT_IMAGE, "command": ["/bin/busybox", "sleep", str(INIT_S)]}
            spec["initContainers"] = [{**waits, "resources": {"limits": {f"nvidia.com/{init}": "1"}}}]
            # The pod's own container uses nothing here: it has the device that its init container had.
        annotations = {INIT_SECONDS: str(INIT_S), SHUTDOWN_SECONDS: "1"}
        return self.cluster.person.create(
            POD, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}, WORK
        )

    def status(self, name: str) -> Object:
        """A pod's status."""
        found: Object = self.cluster.person.get(POD, name, WORK)["status"]
        return found

    def until_phase(self, name: str, phase: str) -> None:
        """Wait until a pod is in that phase."""
        self.until(f"{name} {phase}", lambda: self.cluster.phase(name) == phase)

    def listed(self) -> dict[str, PodDevices]:
        """What PodResources lists, by pod name."""
        with PodResources(self.root / "pod-resources" / "kubelet.sock") as client:
            return {pod.name: pod for pod in client.list()}

    def held(self, pod: str) -> tuple[str, ...]:
        """The device ids that a pod has; none for a pod that is not listed."""
        found = self.listed().get(pod)
        return tuple(i for d in found.devices for i in d.ids) if found else ()

    def offered(self) -> set[str]:
        """The device ids that PodResources says can be had."""
        with PodResources(self.root / "pod-resources" / "kubelet.sock") as client:
            return {device for devices in client.allocatable() for device in devices.ids}

    def places(self) -> dict[str, list[int]]:
        """The NUMA nodes of every device that can be had, as PodResources has them."""
        with grpc.insecure_channel(f"unix:{self.root / 'pod-resources' / 'kubelet.sock'}") as channel:
            ask = channel.unary_unary(
                "/v1.PodResourcesLister/GetAllocatableResources",
                request_serializer=pb.AllocatableResourcesRequest.SerializeToString,
                response_deserializer=pb.AllocatableResourcesResponse.FromString,
            )
            answer = ask(pb.AllocatableResourcesRequest(), timeout=DEADLINE_S)
        return {device: [n.ID for n in entry.topology.nodes] for entry in answer.devices for device in entry.device_ids}

    def sockets(self) -> dict[str, tuple[int, int]]:
        """What is in the directory of device plugins, and what tells a socket from its successor."""
        found = {}
        for socket in (self.root / "device-plugins").iterdir():
            if socket.is_socket():
                stat = socket.stat()
                found[socket.name] = (stat.st_ino, stat.st_ctime_ns)
        return found


@contextmanager
def simulated_node(shared: RealCluster, name: str, machine: Machine, **options: Any) -> Iterator[Kubelet]:  # noqa: ANN401 - of Fleet.add
    """A simulated node beside the real ones."""
    client = KubernetesCluster.from_kubeconfig("kubelet", shared.access.kubeconfig)
    with Fleet(client) as fleet:
        node = fleet.add(name, machine, **options)
        fleet.run(interval_s=0.2)
        yield Kubelet(shared, node.name, machine, node.root, node.restart_kubelet)
        node.remove()
    client.close()


@pytest.fixture(scope="module")
def simulated(shared: RealCluster) -> Iterator[Kubelet]:
    """A simulated node with one card."""
    with simulated_node(shared, "simulated", Machine.create(None, [GPU], mig=True, seed="simulated")) as kubelet:
        yield kubelet


@pytest.fixture(params=["real", "simulated"])
def kubelet(request: pytest.FixtureRequest, cluster: RealCluster) -> Kubelet:
    """Either of the two."""
    if request.param == "simulated":
        found: Kubelet = request.getfixturevalue("simulated")
        return found
    return real_kubelet(cluster, cluster.nodes[0])


def real_kubelet(cluster: RealCluster, node: RealNode) -> Kubelet:
    """The kubelet of a real node."""
    return Kubelet(cluster, node.name, node.machine, node.directory / "kubelet", lambda: node.kill("kubelet"))


def test_devices_appear(kubelet: Kubelet) -> None:
    """What the plugin offers is capacity, allocatable, and in GetAllocatableResources."""
    kubelet.slices(["1g.10gb", "1g.10gb", "3g.40gb"])
    kubelet.until_offered({SMALL: 2, LARGE: 1})
    assert 3 == len(kubelet.offered())
    assert {SMALL: 2, LARGE: 1}.items() <= kubelet.devices("capacity").items()


def test_a_plugin_that_is_gone(kubelet: Kubelet) -> None:
    """Allocatable falls to 0 and nothing is offered; the name and the capacity stay."""
    kubelet.slices(["3g.40gb"])
    kubelet.until_offered({LARGE: 1})
    kubelet.pause_plugin()
    assert 0 == kubelet.devices("allocatable")[LARGE]
    assert 1 == kubelet.devices("capacity")[LARGE]
    assert set() == kubelet.offered()
    kubelet.resume_plugin()
    kubelet.until_offered({LARGE: 1})


def test_a_name_that_is_served_no_more(kubelet: Kubelet) -> None:
    """After a change of layout the old name stays, at 0."""
    kubelet.slices(["3g.40gb"])
    kubelet.until_offered({LARGE: 1})
    kubelet.slices(["1g.10gb"])
    kubelet.until_offered({SMALL: 1})
    assert 0 == kubelet.devices("allocatable")[LARGE]


def test_a_pod_and_its_devices(kubelet: Kubelet) -> None:
    """From when it runs until it has ended, PodResources lists the pod with exactly its devices."""
    kubelet.slices(["1g.10gb", "1g.10gb"])
    kubelet.until_offered({SMALL: 2})
    kubelet.pod("p", "mig-1g.10gb")
    kubelet.until_phase("p", "Running")
    (device,) = kubelet.held("p")
    assert device in kubelet.offered()
    assert [SMALL] == [d.resource for d in kubelet.listed()["p"].devices]
    kubelet.cluster.person.delete(POD, "p", WORK)
    kubelet.until_phase("p", "Gone")
    kubelet.until("the device to be free", lambda: kubelet.held("p") == ())


def test_an_init_container_is_not_listed(kubelet: Kubelet) -> None:
    """While an ordinary init container runs, nobody can see by PodResources which device it has."""
    kubelet.slices(["1g.10gb"])
    kubelet.until_offered({SMALL: 1})
    kubelet.pod("p", "mig-1g.10gb", init="mig-1g.10gb")

    def first_runs() -> bool:
        (state,) = kubelet.status("p").get("initContainerStatuses") or [{}]
        return "running" in state.get("state", {})

    kubelet.until("the init container", first_runs)
    found = kubelet.listed().get("p")
    assert "first" not in [container.name for container in (found.containers if found else ())]
    kubelet.until_phase("p", "Running")
    assert 1 == len(kubelet.held("p"))


def test_too_many(kubelet: Kubelet) -> None:
    """What the scheduler counted and the kubelet does not have makes the pod fail for good, with these words."""
    kubelet.slices(["1g.10gb"])
    kubelet.until_offered({SMALL: 1})
    kubelet.pod("first", "mig-1g.10gb")
    kubelet.until_phase("first", "Running")
    kubelet.pod("second", "mig-1g.10gb")
    kubelet.until_phase("second", "Failed")
    assert "UnexpectedAdmissionError" == kubelet.status("second")["reason"]
    assert (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/mig-1g.10gb. "
        "Requested: 1, Available: 0, which is unexpected"
    ) == kubelet.status("second")["message"]


def test_without_a_healthy_device(kubelet: Kubelet) -> None:
    """A pod that comes while the plugin is away fails for good, with these words."""
    kubelet.slices(["3g.40gb"])
    kubelet.until_offered({LARGE: 1})
    kubelet.pause_plugin()
    kubelet.pod("p", "mig-3g.40gb")
    kubelet.until_phase("p", "Failed")
    assert "UnexpectedAdmissionError" == kubelet.status("p")["reason"]
    assert "no healthy devices present; cannot allocate unhealthy devices" in kubelet.status("p")["message"]
    kubelet.resume_plugin()


def test_restart(kubelet: Kubelet) -> None:
    """A new kubelet wipes the plugins' sockets and knows no device until they register; pods keep what they have.

    For a moment it lists no pod at all; whoever asks then must not believe that nobody holds anything.
    """
    kubelet.slices(["1g.10gb", "1g.10gb"])
    kubelet.until_offered({SMALL: 2})
    kubelet.pod("p", "mig-1g.10gb")
    kubelet.until_phase("p", "Running")
    before, devices, plugin = kubelet.sockets(), kubelet.held("p"), kubelet.plugin_pods()
    sockets = {"kubelet.sock", "nvidia-mig-1g.10gb.sock"}
    # There may be one more, of a plugin that was killed.
    assert sockets <= before.keys()

    kubelet.restart()
    kubelet.until("these sockets alone", lambda: kubelet.sockets().keys() == sockets)
    kubelet.until("every socket to be new", lambda: not kubelet.sockets().items() & before.items())
    kubelet.until("the devices", lambda: len(kubelet.offered()) == 2)
    kubelet.until("the pod to be listed", lambda: kubelet.held("p") == devices)
    assert plugin == kubelet.plugin_pods()
    assert "Running" == kubelet.cluster.phase("p")
    kubelet.pod("q", "mig-1g.10gb")
    kubelet.until_phase("q", "Running")
    assert devices != kubelet.held("q")


NUMA = (0, 1)
"""Two cards, each on a NUMA node of its own."""


@pytest.fixture(params=["real", "simulated"])
def aligning(request: pytest.FixtureRequest, cluster: RealCluster) -> Iterator[Kubelet]:
    """A kubelet of either kind that keeps the devices of a container on one NUMA node (single-numa-node)."""
    if request.param == "simulated":
        machine = Machine.create(None, [GPU, GPU], mig=True, numa=NUMA, seed="aligning")
        policy = TopologyPolicy.SINGLE_NUMA_NODE
        with simulated_node(cluster, "aligning", machine, topology_policy=policy) as kubelet:
            yield kubelet
        return
    node = cluster.add_node(GPU, GPU, numa=NUMA)
    yield real_kubelet(cluster, node)
    cluster.clean()
    cluster.remove_node(node)


def rejected(kubelet: Kubelet, name: str) -> None:
    """The pod failed for good, in these words."""
    kubelet.until_phase(name, "Failed")
    assert "TopologyAffinityError" == kubelet.status(name)["reason"]
    assert "Pod was rejected: Resources cannot be allocated with Topology locality" == kubelet.status(name)["message"]


def test_numa_nodes(aligning: Kubelet) -> None:
    """PodResources says where each slice is; a container gets all its slices on one side, or is refused for good."""
    kubelet = aligning
    kubelet.slices(["1g.10gb", "3g.40gb"], ["1g.10gb", "1g.10gb", "3g.40gb"])
    kubelet.until_offered({SMALL: 3, LARGE: 2})
    places = kubelet.places()
    assert [[0], [0], [1], [1], [1]] == sorted(places.values())

    def sides(pod: str) -> list[int]:
        return [node for device in kubelet.held(pod) for node in places[device]]

    kubelet.pod("pair", "mig-1g.10gb", "mig-3g.40gb")
    kubelet.until_phase("pair", "Running")
    assert [0, 0] == sides("pair"), "the first node that has both"
    kubelet.pod("apart", "mig-3g.40gb", count=2)
    rejected(kubelet, "apart")
    kubelet.pod("two", "mig-1g.10gb", count=2)
    kubelet.until_phase("two", "Running")
    assert [1, 1] == sides("two")
    # There is a large one left, and no small one beside it.
    kubelet.pod("late", "mig-1g.10gb", "mig-3g.40gb")
    rejected(kubelet, "late")
    kubelet.pod("last", "mig-3g.40gb")
    kubelet.until_phase("last", "Running")
    assert [1] == sides("last")
