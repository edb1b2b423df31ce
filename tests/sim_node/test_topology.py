"""Devices say on which NUMA node they are, and a kubelet that is told to keeps the devices of a container together."""

from __future__ import annotations

import grpc
import pytest

from mig_manager.kube.kinds import POD
from mig_manager.kube.podresources import podresources_pb2 as pb
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.plugin_devices import Strategy, enumerate_devices
from mig_manager.sim.node.topology import AffinityError, Request, TopologyPolicy, single_numa_node
from tests.sim_node.world import LARGE, SMALL, World, container

SINGLE = TopologyPolicy.SINGLE_NUMA_NODE


def request(needed: int, devices: dict[str, set[int]], available: str | None = None, reusable: str = "") -> Request:
    """Devices of one letter each; all are available unless told."""
    places = {device: frozenset(nodes) for device, nodes in devices.items()}
    return Request(needed, places, set(devices) if available is None else set(available), set(reusable))


BOTH = {"a": {0}, "b": {0}, "c": {1}}
APART = {"a": {0}, "c": {1}}
NOWHERE: dict[str, set[int]] = {"x": set(), "y": set()}


@pytest.mark.parametrize(
    ("requests", "node"),
    [
        ([], None),
        ([request(1, NOWHERE)], None),
        ([request(9, NOWHERE)], None),  # whether there are enough is the device manager's business then
        ([request(1, BOTH)], 0),
        ([request(2, BOTH)], 0),
        ([request(1, BOTH, "c")], 1),
        ([request(1, BOTH), request(1, {"z": {1}})], 1),
        ([request(1, BOTH), request(1, NOWHERE)], 0),
        ([request(1, BOTH, "b", reusable="c")], 1),
        ([request(2, BOTH, "b", reusable="a")], 0),
        ([request(1, {"a": {0, 1}})], 0),
        ([request(1, {**BOTH, "x": set()}, "c", reusable="x")], 1),
    ],
)
def test_the_first_node_that_has_all(requests: list[Request], node: int | None) -> None:
    """Every resource must be had there, and what init containers had counts."""
    assert node == single_numa_node(requests)


@pytest.mark.parametrize(
    "requests",
    [
        [request(2, APART)],
        [request(2, BOTH, "ac")],
        [request(3, BOTH)],
        [request(1, BOTH, "")],
        [request(1, {"a": {0}}), request(1, {"c": {1}})],
        [request(2, BOTH, "b", reusable="c")],
        [request(1, {**BOTH, "x": set()}, "x")],
    ],
)
def test_no_node_has_all(requests: list[Request]) -> None:
    """Too much for one node, free devices on different ones, or resources that are apart."""
    with pytest.raises(AffinityError, match="Resources cannot be allocated with Topology locality"):
        single_numa_node(requests)


def two_cards(world: World, *profiles: tuple[int, str], policy: TopologyPolicy = SINGLE) -> None:
    """A node with a card on each of two NUMA nodes, and these slices."""
    machine = Machine.create(None, ["A100-SXM4-80GB*2"], mig=True, numa=(0, 1))
    for gpu, profile in profiles:
        machine.add_instance(gpu, profile)
    world.node(machine, topology_policy=policy)
    world.until("devices", lambda: len(world.fleet["n1"].kubelet.devices.numa_nodes()) == len(profiles))


def places(world: World, pod: str) -> set[int]:
    """The NUMA nodes of what a pod holds."""
    where = world.fleet["n1"].kubelet.devices.numa_nodes()
    return {node for devices in world.held(pod) for device in devices.ids for node in where[device]}


def test_devices_are_where_their_card_is() -> None:
    """Slices are on their card's NUMA node, and those of a card that is nowhere in particular say nothing."""
    machine = Machine.create(None, ["A100-SXM4-80GB*2"], mig=True, numa=(0, 1))
    for gpu in (0, 1):
        machine.add_instance(gpu, "3g.40gb")
    with machine.change() as state:
        state.cards[0].numa_node = None
    found = enumerate_devices(machine.read(), Strategy.MIXED)
    assert {found.resources[LARGE][1]: 1} == found.numa_nodes


def test_the_kubelet_shows_where_devices_are(world: World) -> None:
    """GetAllocatableResources has the NUMA node of every device."""
    two_cards(world, (0, "3g.40gb"), (1, "3g.40gb"))
    socket = world.fleet["n1"].kubelet.pod_resources / "kubelet.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        ask = channel.unary_unary(
            "/v1.PodResourcesLister/GetAllocatableResources",
            request_serializer=pb.AllocatableResourcesRequest.SerializeToString,
            response_deserializer=pb.AllocatableResourcesResponse.FromString,
        )
        answer = ask(pb.AllocatableResourcesRequest(), timeout=10)
    assert [[0], [1]] == sorted([node.ID for node in entry.topology.nodes] for entry in answer.devices)


def test_slices_of_a_container_are_together(world: World) -> None:
    """One resource that is on both sides, another on the second only: both come from there."""
    two_cards(world, (0, "1g.10gb"), (1, "1g.10gb"), (1, "3g.40gb"))
    world.pod("p", container(_1g_10gb=1, _3g_40gb=1))
    world.until_phase("p", "Running")
    assert {1} == places(world, "p")


def test_what_is_apart_is_refused(world: World) -> None:
    """The kubelet fails the pod, for good, although there are enough devices."""
    two_cards(world, (0, "3g.40gb"), (1, "3g.40gb"))
    world.pod("p", container(_3g_40gb=2))
    world.until_phase("p", "Failed")
    status = world.cluster.get(POD, "p", "default")["status"]
    assert "TopologyAffinityError" == status["reason"]
    assert "Pod was rejected: Resources cannot be allocated with Topology locality" == status["message"]
    assert "p" not in world.listed()


def test_without_the_policy_nobody_asks(world: World) -> None:
    """By default devices of a container may be apart."""
    two_cards(world, (0, "3g.40gb"), (1, "3g.40gb"), policy=TopologyPolicy.NONE)
    world.pod("p", container(_3g_40gb=2))
    world.until_phase("p", "Running")
    assert {0, 1} == places(world, "p")


def test_a_pod_that_is_admitted_again_stays_where_it_is(world: World) -> None:
    """After a reboot its devices are the only ones that count as available to it."""
    two_cards(world, (0, "1g.10gb"), (1, "1g.10gb"))
    for name in ("p", "q"):
        world.pod(name, container(_1g_10gb=1))
        world.until_phase(name, "Running")
    devices = world.fleet["n1"].kubelet.devices
    uid = world.cluster.get(POD, "q", "default")["metadata"]["uid"]
    before = devices.held(uid)
    devices.allocate(uid, "main", {SMALL: 1})
    assert before == devices.held(uid)
    with pytest.raises(AffinityError):
        devices.allocate("another", "main", {SMALL: 1})
