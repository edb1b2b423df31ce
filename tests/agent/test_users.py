"""Who uses a slice that has to go: processes without a pod, and pods of which the kubelet has not decided yet."""

from __future__ import annotations

from mig_manager.agent.names import PAUSED
from mig_manager.agent.results import SOON_S, Wait
from mig_manager.agent.steps.drain import IN_USE_RETRY_S
from mig_manager.kube.kinds import POD
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every
from tests.agent.moments import ready_message
from tests.agent.stories import GOING, Make, advance, granted
from tests.agent.worlds import A100, World

SMALL = "nvidia.com/mig-1g.10gb"


def test_pod_with_two_slices_of_which_one_goes(world: Make) -> None:
    """A pod goes whole, so both of its slices are free afterwards, and it is counted once."""
    w = granted(world)
    w.pod("both", GOING)
    held = w.running["default/both"]
    w.machine.hold(0, start=0, pid=held.pid)
    w.run_pass()
    assert 1 == w.status["plan"]["evictCount"]


def test_process_without_a_pod_is_named_and_the_node_not_touched(world: Make) -> None:
    """A process that no drain can move keeps its slice; the node is not even cordoned for it."""
    w = granted(world)
    w.machine.hold(0, start=2, pid=4_190_000)
    assert "take_up: InUse" == w.settle(3)[-1]
    assert ready_message(w).startswith("in use by pid 4190000; `ps -fp PID` on the node says whose it is; end it")
    assert {} == w.grant_status
    w.machine.free(pid=4_190_000)
    assert "release: Done" == w.settle()[-1]


def test_process_that_comes_while_draining(world: Make) -> None:
    """A process that appears in mid-flight is waited for, up to the drain's time, and never killed."""
    w = granted(world, drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    advance(w, "pause_clients")
    w.machine.hold(0, start=2, pid=4_190_000)
    ended = w.settle(40)
    assert "drain: InUse" in ended
    assert "stand_down: DrainTimeout" in ended
    assert [4_190_000] == [c.pid for c in w.machine.card(0).clients]
    w.assert_clean()


def test_drain_says_whom_it_waits_for_and_comes_again(world: Make) -> None:
    """A process that nobody evicts, and a pod of which nobody knows yet what it gets."""
    w = granted(world)
    advance(w, "pause_clients")
    w.machine.hold(0, start=2, pid=4_190_000)
    who = "in use by pid 4190000; `ps -fp PID` on the node says whose it is"
    text = f"{who}; end it, or stop what starts it for as long as the change takes"
    assert Wait("InUse", IN_USE_RETRY_S, text) == w.run_pass().result
    w.machine.free(pid=4_190_000)
    w.admitting = False
    w.pod("late", GOING)
    text = "nobody knows yet which slice default/late will use"
    assert Wait("PodNotAdmitted", SOON_S, text) == w.run_pass().result


def test_bound_pod_that_is_not_admitted_yet(world: Make) -> None:
    """A pod that is bound may get any free slice of what it wants: it is waited for, then evicted from what it got."""
    w = granted(world)
    w.admitting = False
    w.pod("late", GOING)
    assert ["drain: PodNotAdmitted"] * 3 == w.settle(3)
    assert PAUSED not in w.annotations
    w.admit("late", GOING)
    assert "release: Done" == w.settle()[-1]
    assert ["default/late"] == w.deleted


def test_bound_pod_that_gets_another_slice_stays(world: Make) -> None:
    """Once the kubelet has given it a slice that stays, the pod is nobody's business any more."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("2g", "1g*2", "3g"))
    w.run_pass()
    w.grant()
    w.admitting = False
    w.pod("late", GOING)
    w.run_pass()
    w.admit("late", GOING, w.device_at(0, 2))
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted
    assert "2g.20gb@2" in w.shape()[0]


def initialised(w: World, name: str, *, done: bool) -> None:
    status = {
        "phase": "Running" if done else "Pending",
        "conditions": [{"type": "Initialized", "status": str(done)}, {"type": "Ready", "status": str(done)}],
    }
    w.kube.patch(POD, name, {"status": status}, "default", subresource="status")


def test_second_slice_of_a_running_init_container_stays(world: Make) -> None:
    """The kubelet lists the slice that a pod's own container will have; its init container uses another one as well."""
    w = world(A100, cut=(("1g", 0), ("1g", 1), ("3g", 4)))
    first = [{"name": "i", "resources": {"limits": {SMALL: "2"}}}]
    w.pod("p", SMALL, device=w.device_at(0, 0), initContainers=first)
    initialised(w, "p", done=False)
    w.want(every("1g", "2g", "3g"))
    w.run_pass()
    w.grant()
    assert "drain: PodNotAdmitted" == w.settle(5)[-1]
    assert ["1g.10gb@0 1g.10gb@1 3g.40gb@4"] == w.shape()
    initialised(w, "p", done=True)
    assert "release: Done" in w.settle(10)
    assert (["1g.10gb@0 2g.20gb@2 3g.40gb@4"], []) == (w.shape(), w.deleted)


def test_init_container_that_ended_long_ago_is_in_nobodys_way(world: Make) -> None:
    """Who needed a slice for a start only closes no node for the rest of its life."""
    w = granted(world)
    first = [{"name": "i", "resources": {"limits": {GOING: "1"}}}]
    w.admitting = False
    w.pod("web", "example.com/none", initContainers=first)
    initialised(w, "web", done=False)
    assert "drain: PodNotAdmitted" == w.settle(3)[-1]
    initialised(w, "web", done=True)
    assert "release: Done" in w.settle(10)
    assert [] == w.deleted


def test_nobody_is_evicted_while_slices_have_no_names(world: Make) -> None:
    """A driver that shows no MIG devices tells no UUID, and the kubelet knows slices by nothing else."""
    w = granted(world)
    w.pod("goes", GOING)
    w.machine.inject("nvmlDeviceGetMigDeviceHandleByIndex", code=NvmlCode.NOT_FOUND)
    assert "take_up: DriverNotUnderstood" == w.settle(3)[-1]
    assert "there is none for compute instance 0 of GPU instance" in ready_message(w)
    assert set() == set(w.deleted)
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]
