"""gRPC over unix sockets, as kubelet and device plugin talk: a server that leaves nothing behind, and the stubs.

The stubs are written by hand because the generated ones have no types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from mig_manager.sim.node import deviceplugin_pb2 as pb

API_VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
DEVICE_PLUGIN = "v1beta1.DevicePlugin"
CALL_DEADLINE_S = 10.0

# sun_path of unix(7) holds 108 bytes with the final zero.
MAX_SOCKET_PATH = 107

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)
Handlers = dict[str, "grpc.RpcMethodHandler[Message, Message]"]


class SocketPathError(Exception):
    """A socket's path is longer than the system allows."""


class UnixServer:
    """A gRPC server for one service on a unix socket.

    Stopping removes the socket, by path: the next server on the same path may only start after that.
    """

    def __init__(self, path: Path, service: str, handlers: Handlers, workers: int = 4) -> None:
        if len(str(path)) > MAX_SOCKET_PATH:
            raise SocketPathError(
                f"{path}: {len(str(path))} characters are too long for a unix socket; choose a shorter directory"
            )
        self.path = path
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=path.stem)
        self._server = grpc.server(self._pool)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        path.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        """End all calls at once and wait until no thread of the server is left."""
        self._server.stop(grace=0).wait()
        self._pool.shutdown()


def unary(
    behaviour: Callable[[Request, grpc.ServicerContext], Answer], request: type[Request]
) -> grpc.RpcMethodHandler[Message, Message]:
    """How a server answers one request with one message."""
    return grpc.unary_unary_rpc_method_handler(
        behaviour, request_deserializer=request.FromString, response_serializer=_encoded
    )


def streaming(
    behaviour: Callable[[Request, grpc.ServicerContext], Iterator[Answer]], request: type[Request]
) -> grpc.RpcMethodHandler[Message, Message]:
    """How a server answers one request with messages as they come."""
    return grpc.unary_stream_rpc_method_handler(
        behaviour, request_deserializer=request.FromString, response_serializer=_encoded
    )


def channel(path: Path) -> grpc.Channel:
    """A channel to a unix socket that shares no connection with other channels to the same path."""
    return grpc.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)])


def register(kubelet_socket: Path, request: pb.RegisterRequest) -> None:
    """Announce a device plugin to the kubelet; grpc.RpcError when it does not listen or refuses."""
    with channel(kubelet_socket) as to:
        to.unary_unary(
            f"/{REGISTRATION}/Register", request_serializer=_encoded, response_deserializer=pb.Empty.FromString
        )(request, timeout=CALL_DEADLINE_S)


class Watch(Protocol):
    """A running ListAndWatch."""

    def __iter__(self) -> Iterator[pb.ListAndWatchResponse]:
        """The messages; grpc.RpcError when the stream ends."""
        ...

    def cancel(self) -> bool:
        """End the stream from this side."""
        ...


class DevicePluginStub:
    """What the kubelet asks a device plugin; every method raises grpc.RpcError."""

    def __init__(self, to: grpc.Channel) -> None:
        self._channel = to

    def options(self) -> pb.DevicePluginOptions:
        """What the plugin wants to be asked."""
        return self._unary("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions.FromString)

    def list_and_watch(self) -> Watch:
        """The plugin's devices, again and whole whenever one changes, until somebody cancels or the plugin ends."""
        call: grpc.UnaryStreamMultiCallable[pb.Empty, pb.ListAndWatchResponse] = self._channel.unary_stream(
            f"/{DEVICE_PLUGIN}/ListAndWatch",
            request_serializer=_encoded,
            response_deserializer=pb.ListAndWatchResponse.FromString,
        )
        stream: Watch = call(pb.Empty())
        return stream

    def preferred(self, request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        """Which of the available devices the plugin would take."""
        return self._unary("GetPreferredAllocation", request, pb.PreferredAllocationResponse.FromString)

    def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """What a container needs to use these devices."""
        return self._unary("Allocate", request, pb.AllocateResponse.FromString)

    def _unary(self, method: str, request: Message, decode: Callable[[bytes], Answer]) -> Answer:
        call: grpc.UnaryUnaryMultiCallable[Message, Answer] = self._channel.unary_unary(
            f"/{DEVICE_PLUGIN}/{method}", request_serializer=_encoded, response_deserializer=decode
        )
        return call(request, timeout=CALL_DEADLINE_S)


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()
