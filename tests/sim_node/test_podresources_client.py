"""The PodResources client asks with a deadline, takes large answers, and says what went wrong."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from mig_manager.kube.podresources import podresources_pb2 as pb
from mig_manager.kube.podresources.client import KubeletUnreachableError, PodResources, PodResourcesError
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices, physical_id
from mig_manager.sim.node.podresources_server import SERVICE
from mig_manager.sim.node.rpc import UnixServer, unary


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="mig-") as directory:
        yield Path(directory) / "kubelet.sock"


def answering(answer: Callable[[grpc.ServicerContext], pb.ListPodResourcesResponse], socket: Path) -> UnixServer:
    """A server that answers List."""

    def behaviour(_: pb.ListPodResourcesRequest, context: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        return answer(context)

    return UnixServer(socket, SERVICE, {"List": unary(behaviour, pb.ListPodResourcesRequest)})


def refusing(code: grpc.StatusCode, text: str) -> Callable[[grpc.ServicerContext], pb.ListPodResourcesResponse]:
    def answer(context: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        context.abort(code, text)

    return answer


def test_everything_arrives(socket: Path) -> None:
    """Namespaces, names, containers, resources and ids arrive; entries of one resource stay apart, in order."""
    devices = [pb.ContainerDevices(resource_name="r/a", device_ids=ids) for ids in (["z", "y"], ["x"])]
    container = pb.ContainerResources(name="c", devices=devices)
    pod = pb.PodResources(name="p", namespace="ns", containers=[container])
    server = answering(lambda _: pb.ListPodResourcesResponse(pod_resources=[pod]), socket)
    with PodResources(socket) as client:
        (found,) = client.list()
    server.stop()
    held = (Devices("r/a", ("x",)), Devices("r/a", ("y", "z")))
    assert PodDevices("ns", "p", (ContainerDevices("c", held),)) == found
    assert "ns/p" == found.full_name
    assert held == found.devices


def test_large_answers_arrive(socket: Path) -> None:
    """An answer above gRPC's own limit of 4 MiB is read."""
    pods = [pb.PodResources(name="p" * 1024, namespace="ns") for _ in range(6 * 1024)]
    server = answering(lambda _: pb.ListPodResourcesResponse(pod_resources=pods), socket)
    with PodResources(socket) as client:
        assert 6 * 1024 == len(client.list())
    server.stop()


def test_a_kubelet_that_hangs_is_given_up(socket: Path) -> None:
    """The deadline ends a call that is never answered."""
    ending = threading.Event()

    def hang(_: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        ending.wait(30)
        return pb.ListPodResourcesResponse()

    server = answering(hang, socket)
    with PodResources(socket, deadline_s=0.05) as client, pytest.raises(KubeletUnreachableError, match="for List on"):
        client.list()
    ending.set()
    server.stop()


def test_a_socket_that_nobody_serves_is_unreachable(socket: Path) -> None:
    """A leftover file is no kubelet, and the error says which it was."""
    socket.touch()
    with PodResources(socket) as client, pytest.raises(KubeletUnreachableError, match=str(socket)):
        client.list()


def test_a_missing_socket_is_unreachable(socket: Path) -> None:
    """Without a socket the error asks whether the directory is mounted."""
    with PodResources(socket) as client, pytest.raises(KubeletUnreachableError, match="mounted at the right place"):
        client.allocatable()


def test_other_errors_are_told_apart(socket: Path) -> None:
    """An answer that says no is not an absence."""
    server = answering(refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"), socket)
    with PodResources(socket) as client, pytest.raises(PodResourcesError, match="rejected by rate limit") as caught:
        client.list()
    server.stop()
    assert not isinstance(caught.value, KubeletUnreachableError)


def test_errors_are_one_line(socket: Path) -> None:
    """What the kubelet says is told as one line that a terminal shows as it is."""
    server = answering(refusing(grpc.StatusCode.INTERNAL, "no\n\x1b[2Jway"), socket)
    with PodResources(socket) as client, pytest.raises(PodResourcesError, match=r"kubelet\.sock: no \[2Jway$"):
        client.list()
    server.stop()


def test_answers_that_are_no_messages_are_errors(socket: Path) -> None:
    """Bytes that cannot be read, names that are no UTF-8 among them, are an error of the port."""
    for damaged in (b"\xff" * 9, b"\x0a\x04\x0a\x02\xff\xfe"):

        def behaviour(_: bytes, __: grpc.ServicerContext, damaged: bytes = damaged) -> bytes:
            return damaged

        handler: Any = grpc.unary_unary_rpc_method_handler(behaviour)
        server = UnixServer(socket, SERVICE, {"List": handler})
        with PodResources(socket) as client, pytest.raises(PodResourcesError, match="asking the kubelet for List on"):
            client.list()
        server.stop()


def test_get_on_an_old_kubelet_is_an_error(socket: Path) -> None:
    """Where Get does not exist, None would be a lie."""
    server = answering(lambda _: pb.ListPodResourcesResponse(), socket)
    with PodResources(socket) as client, pytest.raises(PodResourcesError, match="for Get on"):
        client.get("ns", "p")
    server.stop()


def test_get_that_fails_is_no_absence(socket: Path) -> None:
    """Only the kubelet's own words for an unknown pod mean None."""

    def fail(_: pb.GetPodResourcesRequest, context: grpc.ServicerContext) -> pb.GetPodResourcesResponse:
        context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")

    server = UnixServer(socket, SERVICE, {"Get": unary(fail, pb.GetPodResourcesRequest)})
    with PodResources(socket) as client, pytest.raises(PodResourcesError, match="Get method disabled"):
        client.get("ns", "p")
    server.stop()


def test_a_kubelet_that_comes_back_is_found(socket: Path) -> None:
    """One client survives the kubelet's restart."""
    with PodResources(socket) as client:
        for _ in range(3):
            server = answering(lambda _: pb.ListPodResourcesResponse(), socket)
            assert () == client.list()
            server.stop()
            with pytest.raises(KubeletUnreachableError):
                client.list()


@pytest.mark.parametrize(
    ("device", "expected"),
    [("MIG-5c", "MIG-5c"), ("MIG-5c::0", "MIG-5c"), ("GPU-a::12", "GPU-a"), ("MIG-GPU-a/7/0", "MIG-GPU-a/7/0")],
)
def test_replicas_stand_for_one_device(device: str, expected: str) -> None:
    """Time-slicing appends ``::n``; what is before it is the device."""
    assert expected == physical_id(device)
