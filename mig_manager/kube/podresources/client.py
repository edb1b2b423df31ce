"""The client of the kubelet's PodResources API (v1), on the node's own socket.

Every call has a deadline. An answer may be as large as a node with hundreds of pods makes it: the limit is 16 MiB
instead of gRPC's 4, which is what Kubernetes' own consumers of this API set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import grpc
from google.protobuf.message import Message

from mig_manager.kube.podresources import podresources_pb2 as pb
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices

DEFAULT_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
DEADLINE_S = 10.0
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

_SERVICE = "v1.PodResourcesLister"
Answer = TypeVar("Answer", bound=Message)


class PodResourcesError(Exception):
    """The kubelet did not answer as it should: one line that says what was asked, where, and what came back."""


class KubeletUnreachableError(PodResourcesError):
    """Nobody listens on the socket, or not in time. Worth trying again: a kubelet that restarts is away for a while."""


class _PodUnknownError(PodResourcesError):
    """The kubelet knows no such pod. It has no code of its own for that, only words (Get in server_v1.go)."""


class PodResources:
    """The PodResources API of the kubelet behind ``socket``; close it, or use it in a ``with`` block."""

    def __init__(self, socket: Path = DEFAULT_SOCKET, deadline_s: float = DEADLINE_S) -> None:
        self.socket = socket
        self.deadline_s = deadline_s
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            # After the kubelet's restart the next call must not wait for a minute's backoff.
            ("grpc.max_reconnect_backoff_ms", 1000),
            # A channel of its own: clients of one socket otherwise share the state of being disconnected.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)

    def list(self) -> tuple[PodDevices, ...]:
        """Every active pod of the node with what its containers hold; a pod that terminates still holds."""
        answer = self._call("List", pb.ListPodResourcesRequest(), pb.ListPodResourcesResponse.FromString)
        return tuple(_pod(p) for p in answer.pod_resources)

    def allocatable(self) -> tuple[Devices, ...]:
        """All healthy devices, held or not. Empty right after the kubelet's restart, until plugins register."""
        answer = self._call(
            "GetAllocatableResources", pb.AllocatableResourcesRequest(), pb.AllocatableResourcesResponse.FromString
        )
        return _devices(answer.devices)

    def get(self, namespace: str, name: str) -> PodDevices | None:
        """What one pod holds, or ``None`` when the kubelet does not know it."""
        request = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            answer = self._call("Get", request, pb.GetPodResourcesResponse.FromString)
        except _PodUnknownError:
            return None
        return _pod(answer.pod_resources)

    def close(self) -> None:
        """Give the connection up."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _call(self, method: str, request: Message, decode: Callable[[bytes], Answer]) -> Answer:
        asking = f"asking the kubelet for {method} on {self.socket}"
        if not self.socket.exists():
            raise KubeletUnreachableError(
                f"{asking}: there is no such socket; is the kubelet's directory mounted at the right place?"
            )
        call = self._channel.unary_unary(
            f"/{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=decode,
        )
        try:
            return call(request, timeout=self.deadline_s)
        except grpc.RpcError as error:
            code, details = error.code(), _one_line(error.details() or "")
            kind = PodResourcesError
            if code is grpc.StatusCode.UNKNOWN and details.endswith("not found"):
                kind = _PodUnknownError
            elif code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                kind = KubeletUnreachableError
            raise kind(f"{asking}: {details or code.name}") from error


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _pod(pod: pb.PodResources) -> PodDevices:
    return PodDevices(
        pod.namespace, pod.name, tuple(ContainerDevices(c.name, _devices(c.devices)) for c in pod.containers)
    )


def _devices(entries: Iterable[pb.ContainerDevices]) -> tuple[Devices, ...]:
    """In an order of ours: the kubelet ranges over maps, and gives the same devices in another order each time."""
    return tuple(sorted(Devices(e.resource_name, tuple(sorted(e.device_ids))) for e in entries))
