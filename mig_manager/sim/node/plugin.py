"""A simulated NVIDIA device plugin over the kubelet's real gRPC protocol.

It behaves as k8s-device-plugin 0.20 does, conveniences and traps alike. It enumerates when it starts and when
``kubelet.sock`` is created anew, never in between: after a repartition it goes on offering devices that are gone, and
Allocate of a vanished device succeeds. A device marked unhealthy stays so. With nothing to offer it waits for ever,
and its pod is Ready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import grpc

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node import deviceplugin_pb2 as pb
from mig_manager.sim.node.plugin_devices import Strategy, enumerate_devices
from mig_manager.sim.node.rpc import API_VERSION, DEVICE_PLUGIN, UnixServer, register, streaming, unary

KUBELET_SOCKET = "kubelet.sock"
RETRY_S = 30.0
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

_OPTIONS = pb.DevicePluginOptions(get_preferred_allocation_available=True)
_log = logging.getLogger(__name__)


class DevicePlugin:
    """The plugin for one machine, with its sockets in the kubelet's device plugin ``directory``.

    ``clock`` counts seconds; a registration that failed is tried again after 30 of them.
    """

    def __init__(self, machine: Machine, directory: Path, strategy: Strategy, clock: Callable[[], float]) -> None:
        self._machine = machine
        self._kubelet = directory / KUBELET_SOCKET
        self._strategy = strategy
        self._clock = clock
        self._servers: dict[str, _ResourceServer] = {}
        self._registered_with: tuple[int, int] | None = None
        self._retry_at: float | None = None

    @property
    def devices(self) -> dict[str, str]:
        """The resource of every device that it found when it last enumerated."""
        return {device: name for name, server in self._servers.items() for device in server.healthy}

    def start(self) -> None:
        """Enumerate the machine's devices, serve and register each resource; PluginCrash for a layout it refuses."""
        found = enumerate_devices(self._machine.read(), self._strategy)
        for warning in found.warnings:
            _log.warning("%s", warning)
        self._retry_at = None
        self._registered_with = _identity(self._kubelet)
        for name, devices in found.resources.items():
            self._servers[name] = _ResourceServer(self._kubelet.parent, name, devices, found.numa_nodes)
        try:
            for server in self._servers.values():
                server.register(self._kubelet)
        except grpc.RpcError as error:
            _log.warning("registering with %s: %s; trying again", self._kubelet, error.code().name)
            self._retry_at = self._clock() + RETRY_S

    def poll(self) -> None:
        """Start anew when the kubelet did, or when it is time to try registering again."""
        kubelet = _identity(self._kubelet)
        restarted = kubelet is not None and kubelet != self._registered_with
        if restarted or (self._retry_at is not None and self._clock() >= self._retry_at):
            self.stop()
            self.start()

    def stop(self) -> None:
        """End the servers; the kubelet sees its streams break."""
        for server in self._servers.values():
            server.stop()
        self._servers.clear()

    def mark_unhealthy(self, device: str) -> None:
        """Report a device as broken, as the health check does after an XID event; KeyError when it has no such."""
        self._servers[self.devices[device]].mark_unhealthy(device)


class _ResourceServer:
    """The gRPC server of one resource. Its device list never changes, only the health of a device."""

    def __init__(self, directory: Path, resource: str, devices: tuple[str, ...], numa_nodes: Mapping[str, int]) -> None:
        self.resource = resource
        self._numa_nodes = numa_nodes
        self.healthy = dict.fromkeys(devices, True)
        self._changed = threading.Condition()
        self._version = 0
        self._stopped = False
        handlers = {
            "GetDevicePluginOptions": unary(self._options, pb.Empty),
            "ListAndWatch": streaming(self._list_and_watch, pb.Empty),
            "GetPreferredAllocation": unary(self._preferred, pb.PreferredAllocationRequest),
            "Allocate": unary(self._allocate, pb.AllocateRequest),
            "PreStartContainer": unary(self._pre_start, pb.PreStartContainerRequest),
        }
        endpoint = f"nvidia-{resource.rpartition('/')[2]}.sock"
        self._server = UnixServer(directory / endpoint, DEVICE_PLUGIN, handlers)

    def register(self, kubelet: Path) -> None:
        register(
            kubelet,
            pb.RegisterRequest(
                version=API_VERSION, endpoint=self._server.path.name, resource_name=self.resource, options=_OPTIONS
            ),
        )

    def mark_unhealthy(self, device: str) -> None:
        with self._changed:
            self.healthy[device] = False
            self._version += 1
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._server.stop()

    def _options(self, _: pb.Empty, __: grpc.ServicerContext) -> pb.DevicePluginOptions:
        return _OPTIONS

    def _list_and_watch(self, _: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        context.add_callback(self._wake)
        sent = -1
        while True:
            with self._changed:
                while self._version == sent and not self._stopped and context.is_active():
                    self._changed.wait()
                if self._stopped or not context.is_active():
                    return
                sent = self._version
                devices = [
                    pb.Device(ID=device, health=HEALTHY if healthy else UNHEALTHY, topology=self._topology(device))
                    for device, healthy in self.healthy.items()
                ]
            yield pb.ListAndWatchResponse(devices=devices)

    def _topology(self, device: str) -> pb.TopologyInfo | None:
        """The NUMA node of the device's card, as sysfs has it; nothing where it is not known."""
        node = self._numa_nodes.get(device)
        return None if node is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _preferred(
        self, request: pb.PreferredAllocationRequest, _: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """Take what comes first. Unreplicated slices are all the same to the real plugin too."""
        return pb.PreferredAllocationResponse(
            container_responses=[
                pb.ContainerPreferredAllocationResponse(
                    deviceIDs=list(
                        dict.fromkeys([*wanted.must_include_deviceIDs, *wanted.available_deviceIDs]),
                    )[: wanted.allocation_size]
                )
                for wanted in request.container_requests
            ]
        )

    def _allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        """Only ids that were never listed are refused: nobody looks whether a device still exists."""
        answer = pb.AllocateResponse()
        for wanted in request.container_requests:
            for device in wanted.devices_ids:
                if device not in self.healthy:
                    context.abort(
                        grpc.StatusCode.UNKNOWN,
                        f"invalid allocation request for {self.resource!r}: unknown device: {device}",
                    )
            answer.container_responses.append(
                pb.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(wanted.devices_ids)})
            )
        return answer

    def _pre_start(self, _: pb.PreStartContainerRequest, __: grpc.ServicerContext) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()


def _identity(socket: Path) -> tuple[int, int] | None:
    """What changes when a socket is created anew; an inode number alone is soon given to the next file."""
    try:
        stat = socket.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_ctime_ns
