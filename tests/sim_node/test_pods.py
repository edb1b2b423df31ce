"""Pods on a simulated node hold slices from admission until their last process has left."""

from __future__ import annotations

from pathlib import Path

from mig_manager.kube.kinds import POD
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.pod_spec import INIT_SECONDS, SHUTDOWN_SECONDS
from tests.sim_node.world import LARGE, SMALL, World, container


def machine_with(world: World, *profiles: str) -> Machine:
    machine = world.machine()
    for profile in profiles:
        machine.add_instance(0, profile)
    return machine


def busy(machine: Machine) -> set[tuple[int | None, str]]:
    """The GPU instances in use, and by which pod."""
    return {(client.gpu_instance, client.name) for client in machine.card(0).clients}


def test_a_pod_holds_what_it_was_given(world: World) -> None:
    """PodResources names the device, the card shows the process, and the pod runs."""
    machine = machine_with(world, "1g.10gb", "3g.40gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1, LARGE: 1})
    world.pod("p", container(_3g_40gb=1))
    world.until_phase("p", "Running")
    (devices,) = world.held("p")
    assert LARGE == devices.resource
    assert 1 == len(devices.ids)
    large = next(i for i in machine.card(0).instances if i.size == 4)
    assert {(large.id, "default/p")} == busy(machine)
    ready = {c["type"]: c["status"] for c in world.status("p")["conditions"]}
    assert {"Initialized": "True", "ContainersReady": "True", "Ready": "True"} == ready


def test_a_process_tells_its_pod(world: World) -> None:
    """The node's proc directory leads from a pid that NVML reports to the pod's UID, and from nowhere afterwards."""
    machine = machine_with(world, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    uid = world.pod("p", container(_1g_10gb=1))["metadata"]["uid"]
    world.until_phase("p", "Running")
    (client,) = machine.card(0).clients
    about = node.kubelet.proc / str(client.pid)
    assert f"-pod{uid.replace('-', '_')}.slice/" in (about / "cgroup").read_text()
    assert "python\n" == (about / "comm").read_text()
    links = [str(entry.readlink()) for entry in sorted((about / "fd").iterdir())]
    assert ["/dev/nvidiactl", "/dev/nvidia0"] == links[:2]
    minors = (node.kubelet.proc / "driver/nvidia-caps/mig-minors").read_text()
    for link in links[2:]:
        assert f"access {link.removeprefix('/dev/nvidia-caps/nvidia-cap')}\n" in minors
    assert not Path(f"/proc/{client.pid}").exists()
    world.cluster.delete(POD, "p", "default")
    world.until_phase("p", "Gone")
    assert ["driver"] == [entry.name for entry in node.kubelet.proc.iterdir()]


def test_too_many_is_an_unexpected_admission_error(world: World) -> None:
    """The scheduler counts and the kubelet gives: what is not there any more makes the pod fail for good."""
    world.node(machine_with(world, "1g.10gb"))
    world.until_allocatable({SMALL: 1})
    world.pod("first", container(_1g_10gb=1))
    world.until_phase("first", "Running")
    world.pod("second", container(_1g_10gb=1))
    world.until_phase("second", "Failed")
    assert "UnexpectedAdmissionError" == world.status("second")["reason"]
    assert (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/mig-1g.10gb. "
        "Requested: 1, Available: 0, which is unexpected"
    ) == world.status("second")["message"]
    assert "Running" == world.phase("first")


def test_a_pod_that_leaves_still_holds(world: World) -> None:
    """Until its process has left, a terminating pod is listed and its slice in use; then both end at once."""
    machine = machine_with(world, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1), annotations={SHUTDOWN_SECONDS: "20"})
    world.until_phase("p", "Running")
    world.cluster.delete(POD, "p", "default")
    world.fleet.sync()
    world.clock.now += 19
    world.fleet.sync()
    assert "Running" == world.phase("p")
    assert world.held("p")
    assert busy(machine)
    world.clock.now += 1
    world.fleet.sync()
    assert "Gone" == world.phase("p")
    assert {"p"}.isdisjoint(world.listed())
    assert not busy(machine)


def test_the_grace_period_ends_what_does_not_leave(world: World) -> None:
    """A process that takes longer than the grace period is ended with it; a later, shorter one counts."""
    world.node(machine_with(world, "1g.10gb"))
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1), annotations={SHUTDOWN_SECONDS: "1000"}, grace_s=60)
    world.until_phase("p", "Running")
    world.cluster.delete(POD, "p", "default")
    world.fleet.sync()
    world.cluster.delete(POD, "p", "default", grace_s=5)
    world.fleet.sync()
    world.clock.now += 4
    world.fleet.sync()
    assert "Running" == world.phase("p")
    world.clock.now += 1
    world.fleet.sync()
    assert "Gone" == world.phase("p")


def test_a_pod_deleted_by_force_still_holds(world: World) -> None:
    """Who removes the object does not end the process: the slice stays in use, and PodResources says so."""
    machine = machine_with(world, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1), annotations={SHUTDOWN_SECONDS: "7"})
    world.until_phase("p", "Running")
    world.cluster.delete(POD, "p", "default", grace_s=0)
    world.fleet.sync()
    assert busy(machine)
    assert world.held("p")
    world.clock.now += 7
    world.fleet.sync()
    assert not busy(machine)
    assert "p" not in world.listed()


def test_bound_but_not_admitted(world: World) -> None:
    """While admission is held a bound pod holds nothing that anybody on the node could name."""
    machine = machine_with(world, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    node.hold_admission()
    world.pod("p", container(_1g_10gb=1))
    world.fleet.sync()
    assert "Pending" == world.phase("p")
    assert "p" not in world.listed()
    assert not busy(machine)
    node.release_admission()
    world.until_phase("p", "Running")
    assert busy(machine)


def test_only_some_pods_can_be_held_back(world: World) -> None:
    """Who needs the window for one pod lets the others, the plugin's above all, go on."""
    node = world.node(machine_with(world, "1g.10gb"))
    node.hold_admission(lambda pod: pod["metadata"]["name"] == "p")
    world.until_allocatable({SMALL: 1})
    world.pod("p", container())
    world.pod("q", container())
    world.until_phase("q", "Running")
    assert "Pending" == world.phase("p")


def test_a_pod_deleted_before_admission_never_starts(world: World) -> None:
    """What is deleted inside the window just goes."""
    node = world.node(machine_with(world, "1g.10gb"))
    world.until_allocatable({SMALL: 1})
    node.hold_admission()
    world.pod("p", container(_1g_10gb=1))
    world.fleet.sync()
    world.cluster.delete(POD, "p", "default")
    node.release_admission()
    world.fleet.sync()
    assert "Gone" == world.phase("p")


def test_init_containers_are_not_listed(world: World) -> None:
    """A slice used by an ordinary init container is in use on the card, and looks free in PodResources."""
    machine = machine_with(world, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container("main"), init=[container("prepare", _1g_10gb=1)], annotations={INIT_SECONDS: "9"})
    world.until("the init container to run", lambda: bool(busy(machine)))
    assert () == world.held("p")
    assert "Pending" == world.phase("p")
    world.clock.now += 9
    world.until_phase("p", "Running")
    assert not busy(machine)
    assert "Completed" == world.status("p")["initContainerStatuses"][0]["state"]["terminated"]["reason"]


def test_sidecars_are_listed(world: World) -> None:
    """A restartable init container is listed as any container, from the start, and goes on running."""
    machine = machine_with(world, "1g.10gb", "3g.40gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1, LARGE: 1})
    sidecar = container("side", restart="Always", _1g_10gb=1)
    world.pod("p", container(_3g_40gb=1), init=[sidecar, container("prepare")], annotations={INIT_SECONDS: "9"})
    world.until("the sidecar to run", lambda: len(busy(machine)) == 1)
    assert ["side", "main"] == [c.name for c in world.listed()["p"].containers]
    assert {SMALL, LARGE} == {d.resource for d in world.held("p")}
    world.clock.now += 9
    world.until_phase("p", "Running")
    assert 2 == len(busy(machine))


def test_containers_reuse_the_devices_of_init_containers(world: World) -> None:
    """One slice is enough for an init container and the container after it."""
    world.node(machine_with(world, "1g.10gb"))
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1), init=[container("prepare", _1g_10gb=1)])
    world.until_phase("p", "Running")
    assert 1 == len(world.held("p"))


def test_only_one_container_reuses_a_device(world: World) -> None:
    """What the first container took over from an init container is not there for the second."""
    world.node(machine_with(world, "1g.10gb", "1g.10gb"))
    world.until_allocatable({SMALL: 2})
    init = [container("one", _1g_10gb=1), container("two", _1g_10gb=1)]
    world.pod("p", container("main", _1g_10gb=1), container("other", _1g_10gb=1), init=init)
    world.until_phase("p", "Running")
    assert world.offered() == {device for devices in world.held("p") for device in devices.ids}


def test_a_device_that_vanished_breaks_the_start(world: World) -> None:
    """Allocate of a vanished device succeeds; the container cannot start until the same device is there again."""
    machine = machine_with(world, "1g.10gb")
    world.node(machine)
    world.until_allocatable({SMALL: 1})
    start = machine.card(0).instances[0].start
    machine.remove_instance(0, start=start)
    world.pod("p", container(_1g_10gb=1))
    world.fleet.sync()
    world.fleet.sync()
    waiting = world.status("p")["containerStatuses"][0]["state"]["waiting"]
    assert "RunContainerError" == waiting["reason"]
    assert "unknown device" in waiting["message"]
    assert "Pending" == world.phase("p")
    assert world.held("p")
    machine.add_instance(0, "1g.10gb", start=start)
    world.until_phase("p", "Running")


def test_a_container_restart_keeps_its_devices(world: World) -> None:
    """Allocate is not asked again: a pod that outlives its slice breaks when its container restarts."""
    machine = machine_with(world, "1g.10gb")
    node = world.node(machine)
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_1g_10gb=1))
    world.until_phase("p", "Running")
    before = world.held("p")
    node.restart_containers("default", "p")
    world.fleet.sync()
    assert before == world.held("p")
    assert 1 == world.status("p")["containerStatuses"][0]["restartCount"]
    with machine.change() as state:
        state.cards[0].instances.clear()
        state.cards[0].clients.clear()
    node.restart_containers("default", "p")
    world.fleet.sync()
    assert "RunContainerError" == world.status("p")["containerStatuses"][0]["state"]["waiting"]["reason"]


def test_which_slice_a_pod_gets_is_arbitrary(world: World) -> None:
    """Seven pods get seven different slices, and not in the order of their ids."""
    machine = machine_with(world, *["1g.10gb"] * 7)
    world.node(machine)
    world.until_allocatable({SMALL: 7})
    names = [f"p{i}" for i in range(7)]
    for name in names:
        world.pod(name, container(_1g_10gb=1))
    for name in names:
        world.until_phase(name, "Running")
    given = [world.held(name)[0].ids[0] for name in names]
    assert world.offered() == set(given)
    assert sorted(given) != given


def test_unknown_resources_are_ignored(world: World) -> None:
    """A resource the Node never had is not the kubelet's business: the pod runs without a device."""
    world.node(machine_with(world, "1g.10gb"))
    world.until_allocatable({SMALL: 1})
    world.pod("p", container(_7g_80gb=1))
    world.until_phase("p", "Running")
    assert () == world.held("p")
