"""The kubelet's PodResources service (v1) on its socket."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import grpc

from mig_manager.kube.podresources import podresources_pb2 as pb
from mig_manager.kube.podresources.values import PodDevices
from mig_manager.sim.node.rpc import UnixServer, unary
from mig_manager.sim.node.topology import NumaNodes

SERVICE = "v1.PodResourcesLister"
SOCKET = "kubelet.sock"


class PodResourcesServer:
    """Answers from what is asked anew for every call.

    That is ``pods`` (the active ones), ``healthy`` (device ids by resource) and ``numa_nodes`` (where devices are).
    """

    def __init__(
        self,
        directory: Path,
        pods: Callable[[], Iterable[PodDevices]],
        healthy: Callable[[], Mapping[str, Iterable[str]]],
        numa_nodes: Callable[[], NumaNodes],
    ) -> None:
        self._pods = pods
        self._healthy = healthy
        self._numa_nodes = numa_nodes
        handlers = {
            "List": unary(self._list, pb.ListPodResourcesRequest),
            "GetAllocatableResources": unary(self._allocatable, pb.AllocatableResourcesRequest),
            "Get": unary(self._get, pb.GetPodResourcesRequest),
        }
        self._server = UnixServer(directory / SOCKET, SERVICE, handlers)

    def stop(self) -> None:
        """Stop listening; the socket is gone."""
        self._server.stop()

    def _list(self, _: pb.ListPodResourcesRequest, __: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=[self._message(pod) for pod in self._pods()])

    def _allocatable(
        self, _: pb.AllocatableResourcesRequest, __: grpc.ServicerContext
    ) -> pb.AllocatableResourcesResponse:
        return pb.AllocatableResourcesResponse(devices=self._entries(self._healthy()))

    def _get(self, request: pb.GetPodResourcesRequest, context: grpc.ServicerContext) -> pb.GetPodResourcesResponse:
        name, namespace = request.pod_name, request.pod_namespace
        pod = next((p for p in self._pods() if (p.namespace, p.name) == (namespace, name)), None)
        if pod is None:
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {name} in namespace {namespace} not found")
        return pb.GetPodResourcesResponse(pod_resources=self._message(pod))

    def _message(self, pod: PodDevices) -> pb.PodResources:
        return pb.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[
                pb.ContainerResources(name=c.name, devices=self._entries({d.resource: d.ids for d in c.devices}))
                for c in pod.containers
            ],
        )

    def _entries(self, devices: Mapping[str, Iterable[str]]) -> list[pb.ContainerDevices]:
        """One entry for every device, as containerDevicesFromResourceDeviceInstances of the kubelet makes them.

        In any order: the kubelet ranges over maps.
        """
        places = self._numa_nodes()
        entries = [
            pb.ContainerDevices(
                resource_name=resource,
                device_ids=[device],
                topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in sorted(places.get(device, ()))]),
            )
            for resource, ids in devices.items()
            for device in ids
        ]
        random.shuffle(entries)
        return entries
