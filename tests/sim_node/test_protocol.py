"""Kubelet and device plugin speak the real protocol with each other, and refuse what the real ones refuse."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node import deviceplugin_pb2 as pb
from mig_manager.sim.node.device_manager import AllocationError, Counts, DeviceManager
from mig_manager.sim.node.plugin import DevicePlugin
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.registration import Registry
from mig_manager.sim.node.rpc import DEVICE_PLUGIN, DevicePluginStub, UnixServer, channel, register, streaming, unary
from tests.sim_node.world import LARGE, SMALL, FakeClock, until


class Place:
    """A kubelet's directory with a device manager and a registry, and a machine with one slice."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock()
        self.devices = DeviceManager(self.clock, "seed")
        self.registry = Registry(directory, self.devices)
        self.machine = Machine.create(None, ["A100-SXM4-80GB"], mig=True)
        self.machine.add_instance(0, "1g.10gb")
        self.plugin = DevicePlugin(self.machine, directory, Strategy.MIXED, self.clock)

    def until_healthy(self, resource: str = SMALL) -> tuple[str, ...]:
        """Wait for the plugin's list."""
        until("devices", lambda: bool(self.devices.healthy().get(resource)))
        return self.devices.healthy()[resource]


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="mig-") as directory:
        place = Place(Path(directory))
        yield place
        place.plugin.stop()
        place.registry.stop()


def request(version: str = "v1beta1") -> pb.RegisterRequest:
    return pb.RegisterRequest(version=version, endpoint="p.sock", resource_name=SMALL)


def test_another_version_is_refused(place: Place) -> None:
    """A plugin of another API version cannot register."""
    place.registry.start()
    with pytest.raises(grpc.RpcError, match=r"requested API version 'v1' is not supported by kubelet"):
        register(place.directory / "kubelet.sock", request(version="v1"))
    assert {} == place.devices.counts()


def test_a_plugin_must_serve_before_it_registers(place: Place) -> None:
    """The kubelet asks for the options while the plugin registers; a plugin that does not answer is refused."""
    place.registry.start()
    with pytest.raises(grpc.RpcError, match="failed to get device plugin options"):
        register(place.directory / "kubelet.sock", request())
    assert {} == place.devices.counts()


def test_a_plugin_without_preference_is_not_asked(place: Place) -> None:
    """GetPreferredAllocation is called only where the plugin's options say so; here it does not even exist."""
    ending = threading.Event()

    def watch(_: pb.Empty, __: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID="a", health="Healthy")])
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID=i, health="Healthy") for i in ("a", "b")])
        ending.wait()

    allocated: list[list[str]] = []

    def allocate(wanted: pb.AllocateRequest, _: grpc.ServicerContext) -> pb.AllocateResponse:
        allocated.extend(list(c.devices_ids) for c in wanted.container_requests)
        return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse()])

    place.registry.start()
    server = UnixServer(
        place.directory / "p.sock",
        DEVICE_PLUGIN,
        {
            "GetDevicePluginOptions": unary(lambda _, __: pb.DevicePluginOptions(), pb.Empty),
            "ListAndWatch": streaming(watch, pb.Empty),
            "Allocate": unary(allocate, pb.AllocateRequest),
        },
    )
    register(place.directory / "kubelet.sock", request())
    until("both devices", lambda: place.devices.counts() == {SMALL: Counts(2, 2)})
    place.devices.allocate("uid", "c", {SMALL: 1})
    held = place.devices.held("uid")["c"][SMALL]
    assert [list(held)] == allocated
    ending.set()
    server.stop()


def test_a_device_that_was_never_listed_is_refused(place: Place) -> None:
    """The plugin answers for what it listed: an id that another instance of it listed is an error of Allocate."""
    place.registry.start()
    place.plugin.start()
    place.until_healthy()
    (socket,) = place.directory.glob("nvidia-mig-*.sock")
    with channel(socket) as to:
        stub = DevicePluginStub(to)
        wanted = pb.ContainerAllocateRequest(devices_ids=["MIG-other"])
        with pytest.raises(grpc.RpcError, match="unknown device: MIG-other"):
            stub.allocate(pb.AllocateRequest(container_requests=[wanted]))
        (device,) = place.plugin.devices
        wanted = pb.ContainerAllocateRequest(devices_ids=[device])
        (answer,) = stub.allocate(pb.AllocateRequest(container_requests=[wanted])).container_responses
        assert {"NVIDIA_VISIBLE_DEVICES": device} == dict(answer.envs)


def test_a_plugin_that_is_gone_refuses_by_its_absence(place: Place) -> None:
    """Between the last list and Allocate the plugin may go; the allocation fails, whoever noticed first."""
    place.registry.start()
    place.plugin.start()
    place.until_healthy()
    endpoint = place.devices._resources[SMALL].endpoint
    assert endpoint is not None
    place.plugin.stop()
    with pytest.raises(AllocationError, match="rpc error: code = UNAVAILABLE"):
        endpoint.allocate(["MIG-a"])
    with pytest.raises(AllocationError, match="rpc error: code = UNAVAILABLE"):
        endpoint.preferred(["MIG-a"], [], 1)
    place.registry.stop()
    with pytest.raises(AllocationError, match="rpc error"):
        endpoint.allocate(["MIG-a"])


def test_a_registration_that_failed_is_repeated(place: Place) -> None:
    """Where kubelet.sock is there and nobody answers, the plugin starts all over after 30 s, and not before."""
    (place.directory / "kubelet.sock").touch()
    place.plugin.start()
    (socket,) = place.directory.glob("nvidia-mig-*.sock")
    first = socket.stat().st_ctime_ns
    place.clock.now += 29
    place.plugin.poll()
    assert first == socket.stat().st_ctime_ns
    place.clock.now += 1
    place.plugin.poll()
    assert first != socket.stat().st_ctime_ns


def test_a_kubelet_that_comes_late_is_found_at_once(place: Place) -> None:
    """The plugin does not wait for its 30 s when kubelet.sock appears."""
    place.plugin.start()
    place.plugin.poll()
    place.registry.start()
    place.plugin.poll()
    assert tuple(place.plugin.devices) == place.until_healthy()


def test_a_kubelet_restart_makes_the_plugin_enumerate_anew(place: Place) -> None:
    """A new kubelet.sock is the one event after which the list is another."""
    place.registry.start()
    place.plugin.start()
    place.until_healthy()
    place.machine.add_instance(0, "3g.40gb")
    place.plugin.poll()
    assert [SMALL] == list(place.plugin.devices.values())
    place.registry.stop()
    place.devices.restart()
    place.registry.start()
    place.plugin.poll()
    place.until_healthy(LARGE)
    assert {SMALL, LARGE} == set(place.plugin.devices.values())


def test_there_is_nothing_to_do_before_a_container_starts(place: Place) -> None:
    """The plugin implements PreStartContainer, though nobody needs to call it."""
    place.plugin.start()
    (socket,) = place.directory.glob("nvidia-mig-*.sock")
    with channel(socket) as to:
        call = to.unary_unary(
            f"/{DEVICE_PLUGIN}/PreStartContainer",
            request_serializer=pb.PreStartContainerRequest.SerializeToString,
            response_deserializer=pb.PreStartContainerResponse.FromString,
        )
        assert pb.PreStartContainerResponse() == call(pb.PreStartContainerRequest(), timeout=5)


def test_an_unknown_device_cannot_be_marked(place: Place) -> None:
    """A mistake in a test is not silently nothing."""
    place.plugin.start()
    with pytest.raises(KeyError, match="MIG-other"):
        place.plugin.mark_unhealthy("MIG-other")


class Taker:
    """An endpoint that takes everything."""

    def preferred(self, available: list[str], must_include: list[str], size: int) -> list[str]:
        """The last ones."""
        return [*must_include, *sorted(available, reverse=True)][:size]

    def allocate(self, devices: list[str]) -> None:
        """Anything goes."""


def manager_with(devices: dict[str, bool]) -> tuple[DeviceManager, Taker, FakeClock]:
    clock, taker = FakeClock(), Taker()
    manager = DeviceManager(clock, "seed")
    manager.connect(SMALL, taker)
    manager.update(SMALL, taker, devices)
    return manager, taker, clock


def test_the_plugins_preference_counts() -> None:
    """The container gets what the plugin would take."""
    manager, _, _ = manager_with({"a": True, "b": True, "c": True})
    manager.allocate("uid", "c", {SMALL: 2})
    assert {"c": {SMALL: ("c", "b")}} == manager.held("uid")


def test_a_device_that_became_unhealthy_is_not_given_again() -> None:
    """After a reboot a container cannot have its former device back when it is broken by now."""
    manager, taker, _ = manager_with({"a": True, "b": False})
    manager.allocate("uid", "c", {SMALL: 1})
    manager.allocate("uid", "c", {SMALL: 1})
    manager.update(SMALL, taker, {"a": False, "b": True})
    with pytest.raises(AllocationError, match="previously allocated devices are no longer healthy"):
        manager.allocate("uid", "c", {SMALL: 1})


def test_a_resource_that_is_only_held_is_unregistered() -> None:
    """When its name has expired, but a pod still holds a device of it, another pod is told so."""
    manager, taker, clock = manager_with({"a": True})
    manager.allocate("uid", "c", {SMALL: 1})
    manager.disconnect(SMALL, taker)
    clock.now += 300
    assert {SMALL: Counts(0, 0)} == manager.counts()
    with pytest.raises(AllocationError, match=f"cannot allocate unregistered device {SMALL}"):
        manager.allocate("other", "c", {SMALL: 1})
    manager.release("uid")
    manager.allocate("other", "c", {SMALL: 1})
    assert {} == manager.held("other")


def test_a_late_word_of_a_former_plugin_counts_for_nothing() -> None:
    """Once another plugin serves the resource, list and end of the former one are ignored."""
    manager, former, _ = manager_with({"a": True})
    successor = Taker()
    manager.connect(SMALL, successor)
    manager.update(SMALL, successor, {"b": True})
    manager.update(SMALL, former, {"a": True})
    manager.disconnect(SMALL, former)
    assert {SMALL: ("b",)} == manager.healthy()


def test_registering_again_within_the_five_minutes_replaces_the_list() -> None:
    """The same name comes back with other devices, and nothing of the old ones is left."""
    manager, taker, clock = manager_with({"a": True, "b": True})
    manager.disconnect(SMALL, taker)
    clock.now += 200
    successor = Taker()
    manager.connect(SMALL, successor)
    manager.update(SMALL, successor, {"c": True})
    clock.now += 200
    assert {SMALL: Counts(1, 1)} == manager.counts()
