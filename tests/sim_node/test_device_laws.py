"""Whatever plugins say and pods ask for, the device manager gives every device to one pod at a time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mig_manager.sim.node.device_manager import AllocationError, Counts, DeviceManager
from tests.sim_node.world import LARGE, SMALL, FakeClock

RESOURCES = st.sampled_from([SMALL, LARGE])
PODS = st.sampled_from(["p", "q", "r"])
LISTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.booleans())


class Plugin:
    """An endpoint that has no wishes and remembers what it was asked."""

    def __init__(self) -> None:
        self.allocated: list[list[str]] = []

    def preferred(self, available: list[str], must_include: list[str], size: int) -> list[str]:
        """No wishes."""
        del available, must_include, size
        return []

    def allocate(self, devices: list[str]) -> None:
        """Remember."""
        self.allocated.append(devices)


class Devices(RuleBasedStateMachine):
    """A device manager with two resources, three pods, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.manager = DeviceManager(self.clock, "seed")
        self.plugins: dict[str, Plugin] = {}
        self.lists: dict[str, dict[str, bool]] = {}

    @rule(resource=RESOURCES, devices=LISTS)
    def register(self, resource: str, devices: dict[str, bool]) -> None:
        """A plugin, perhaps another one, brings its list. Ids differ between resources, as UUIDs do."""
        plugin = self.plugins[resource] = Plugin()
        self.lists[resource] = {f"{resource}/{name}": healthy for name, healthy in devices.items()}
        self.manager.connect(resource, plugin)
        self.manager.update(resource, plugin, self.lists[resource])

    @rule(resource=RESOURCES)
    def lose(self, resource: str) -> None:
        """The plugin is gone."""
        if resource in self.plugins:
            self.manager.disconnect(resource, self.plugins.pop(resource))
            self.lists[resource] = dict.fromkeys(self.lists[resource], False)

    @rule()
    def restart(self) -> None:
        """The kubelet starts anew and knows no device."""
        self.manager.restart()
        self.plugins.clear()
        self.lists.clear()

    @rule(seconds=st.sampled_from([1, 150, 300]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.clock.now += seconds

    @rule(pod=PODS, resource=RESOURCES, needed=st.integers(0, 3), reusable=st.booleans())
    def allocate(self, pod: str, resource: str, needed: int, *, reusable: bool) -> None:
        """A pod that holds nothing asks; it gets all it asks for, healthy and new to others, or nothing."""
        if self.manager.held(pod):
            return
        healthy = set(self.manager.healthy().get(resource, ()))
        try:
            self.manager.allocate(pod, "c", {resource: needed}, reusable=reusable)
        except AllocationError:
            assert {} == self.manager.held(pod)
            return
        given = self.manager.held(pod).get("c", {}).get(resource, ())
        assert set(given) <= healthy
        if needed and resource in self.plugins:
            assert needed == len(given)
            assert list(given) == self.plugins[resource].allocated[-1]

    @rule(pod=PODS)
    def release(self, pod: str) -> None:
        """A pod ends."""
        self.manager.release(pod)

    @invariant()
    def nothing_is_held_twice(self) -> None:
        """The ids that all pods hold are all different."""
        held = [
            device
            for pod in ("p", "q", "r")
            for container in self.manager.held(pod).values()
            for devices in container.values()
            for device in devices
        ]
        assert len(set(held)) == len(held)

    @invariant()
    def the_node_shows_what_plugins_said(self) -> None:
        """Allocatable is what is healthy, and a resource once shown stays."""
        counts = self.manager.counts()
        for resource, devices in self.lists.items():
            shown = counts[resource]
            if resource in self.plugins:
                assert Counts(len(devices), sum(devices.values())) == shown
            else:
                assert 0 == shown.allocatable


Devices.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestDevices = Devices.TestCase
