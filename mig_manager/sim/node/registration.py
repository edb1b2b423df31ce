"""The kubelet's side of the device plugin protocol: the Registration service, and a watch on every plugin."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc

from mig_manager.sim.node import deviceplugin_pb2 as pb
from mig_manager.sim.node.device_manager import AllocationError, DeviceManager
from mig_manager.sim.node.plugin import HEALTHY, KUBELET_SOCKET
from mig_manager.sim.node.rpc import API_VERSION, REGISTRATION, DevicePluginStub, UnixServer, Watch, channel, unary


class Registry:
    """Listens on ``kubelet.sock`` in ``directory`` and keeps the device manager up to date."""

    def __init__(self, directory: Path, devices: DeviceManager) -> None:
        self._directory = directory
        self._devices = devices
        self._lock = threading.Lock()
        self._watched: list[_Plugin] = []
        self._server: UnixServer | None = None

    def start(self) -> None:
        """Remove every socket that is there, as the kubelet does (CleanupPluginDirectory), and listen."""
        for socket in self._directory.iterdir():
            socket.unlink()
        self._server = UnixServer(
            self._directory / KUBELET_SOCKET, REGISTRATION, {"Register": unary(self._register, pb.RegisterRequest)}
        )

    def stop(self) -> None:
        """Stop listening and leave the plugins alone, whose devices are unhealthy from now on."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        with self._lock:
            watched, self._watched = self._watched, []
        for plugin in watched:
            plugin.stop()

    def _register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.Empty:
        if request.version != API_VERSION:
            context.abort(
                grpc.StatusCode.UNKNOWN,
                f"requested API version {request.version!r} is not supported by kubelet. Supported version is "
                f"{API_VERSION!r}",
            )
        try:
            plugin = _Plugin(request.resource_name, self._directory / request.endpoint, self._devices)
        except grpc.RpcError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to get device plugin options: {error.details()}")
        with self._lock:
            for ended in [p for p in self._watched if not p.alive]:
                ended.stop()
                self._watched.remove(ended)
            self._watched.append(plugin)
        return pb.Empty()


class _Plugin:
    """A registered plugin: an endpoint to the device manager, and the thread that follows its devices."""

    def __init__(self, resource: str, socket: Path, devices: DeviceManager) -> None:
        self._resource = resource
        self._devices = devices
        self._channel = channel(socket)
        self._stub = DevicePluginStub(self._channel)
        try:
            self._prefers = self._stub.options().get_preferred_allocation_available
        except grpc.RpcError:
            self._channel.close()
            raise
        devices.connect(resource, self)
        self._watch = self._stub.list_and_watch()
        self._thread = threading.Thread(target=self._follow, args=(self._watch,), name=f"watch {resource}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the plugin is still being followed."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Follow it no longer, and ask it nothing any more."""
        self._watch.cancel()
        self._thread.join()
        self._channel.close()

    def preferred(self, available: list[str], must_include: list[str], size: int) -> list[str]:
        """Ask the plugin, if it wants to be asked."""
        if not self._prefers:
            return []
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        try:
            answer = self._stub.preferred(pb.PreferredAllocationRequest(container_requests=[wanted]))
        except (grpc.RpcError, ValueError) as error:
            raise _refusal(error) from error
        return list(answer.container_responses[0].deviceIDs)

    def allocate(self, devices: list[str]) -> None:
        """Tell the plugin; its refusal is the container's."""
        wanted = pb.ContainerAllocateRequest(devices_ids=devices)
        try:
            self._stub.allocate(pb.AllocateRequest(container_requests=[wanted]))
        except (grpc.RpcError, ValueError) as error:
            raise _refusal(error) from error

    def _follow(self, watch: Watch) -> None:
        try:
            for message in watch:
                healthy = {d.ID: d.health == HEALTHY for d in message.devices}
                numa_nodes = {d.ID: frozenset(n.ID for n in d.topology.nodes) for d in message.devices}
                self._devices.update(self._resource, self, healthy, {d: n for d, n in numa_nodes.items() if n})
        except grpc.RpcError:
            pass  # this is how every stream ends, whoever ended it
        finally:
            self._devices.disconnect(self._resource, self)


def _refusal(error: grpc.RpcError | ValueError) -> AllocationError:
    """What went wrong in the words of Go's gRPC, as the kubelet reports it."""
    if isinstance(error, grpc.RpcError):
        return AllocationError(f"rpc error: code = {error.code().name} desc = {error.details()}")
    return AllocationError(f"rpc error: code = CANCELED desc = {error}")  # the channel was closed meanwhile
