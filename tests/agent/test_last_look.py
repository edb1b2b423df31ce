"""Between the record and the first destroy everything is looked at once more; what has changed drops the record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mig_manager.agent.reconciler import Ending
from mig_manager.agent.results import SOON_S, StepResult, Wait
from mig_manager.kube.kinds import MIG_NODE, NODE
from tests.agent.layouts import every
from tests.agent.moments import at, killed_at
from tests.agent.process import Process
from tests.agent.stories import Make, advance, granted
from tests.agent.worlds import A100, PLUGIN_GATE, World

IN_USE = (
    "in use by pid 4190000; `ps -fp PID` on the node says whose it is; end it, or stop what starts it for as long as "
    "the change takes"
)


def plugin_is_back(w: World) -> None:
    """Somebody sets the gate back, and the plugin's pod is there again."""
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
    w.tick()


def node_is_new(w: World) -> None:
    """The Node is registered anew: no cordon, no pause."""
    w.replace_node()


def run_until(w: World, moment: str, act: Callable[[World], None]) -> tuple[list[str], Ending]:
    """Go on until that call of a port, let it happen there, and end with that pass; its calls after the moment."""
    for _ in range(20):
        process = Process()
        done: list[int] = []

        def look(process: Process = process, done: list[int] = done) -> None:
            if process.names[-1] == moment and not done:
                done.append(len(process.names))
                act(w)

        process.look = look
        ending = w.run_pass(process)
        if done:
            return process.names[done[0] :], ending
        w.tick()
    pytest.fail(f"never came to {moment}")


@pytest.mark.parametrize(
    ("act", "word"),
    [(World.uncordon, "Uncordoned"), (plugin_is_back, "ClientsBack"), (node_is_new, "NodeRecreated")],
)
def test_change_after_the_record(world: Make, act: Callable[[World], None], word: str) -> None:
    """Uncordoned, a client back, or another Node: nothing is destroyed, and the record is dropped."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.grant()
    before = w.shape()
    calls, ending = run_until(w, "journal begun", act)
    assert ("apply", word) == (ending.step, getattr(ending.result, "reason", ""))
    assert "journal dropped" in calls
    assert not [c for c in calls if c.startswith("nvml")]
    assert before == w.shape()
    assert w.journal.intent is None


@pytest.mark.parametrize(
    "act",
    [
        World.revoke,
        lambda w: w.grant(slot=True),
        lambda w: w.admin.delete(MIG_NODE, "n1"),
        lambda w: w.admin.patch(MIG_NODE, "n1", {"spec": {"nodeUID": "another"}}),
    ],
    ids=["revoked", "replaced", "gone", "another Node's"],
)
def test_grant_changes_right_before_the_record(world: Make, act: Callable[[World], None]) -> None:
    """The grant is read live before the record is written: one that is gone begins nothing."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.grant()
    before = w.shape()
    moments: list[str] = []

    def once(_: World) -> None:
        moments.append("changed")
        act(w)

    for _ in range(20):
        process = Process()

        def look(process: Process = process) -> None:
            # The second read of the kubelet's list in a pass is check_holders', right before begin.
            if process.names.count("kubelet list") == 2 and not moments:
                once(w)

        process.look = look
        w.run_pass(process)
        if moments:
            break
        w.tick()
    assert "journal begin" not in process.names
    assert before == w.shape()


def comes(w: World) -> None:
    """A program of the host takes the slice that goes."""
    w.machine.hold(0, start=2, pid=4_190_000)


def kubelet_goes(w: World) -> None:
    """The kubelet answers no more."""
    w.kubelet_down = True


def changed_at_step(w: World, step: str, act: Callable[[World], None]) -> Ending:
    """Go on until that step begins, let it happen there, and end with that pass."""
    for _ in range(20):
        process = Process()
        done: list[str] = []

        def begins(process: Process = process, done: list[str] = done) -> None:
            if process.step == step and not done:
                done.append(step)
                act(w)

        process.begins = begins
        ending = w.run_pass(process)
        if done:
            return ending
        w.tick()
    pytest.fail(f"never came to {step}")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (comes, Wait("InUse", SOON_S, IN_USE)),
        (kubelet_goes, Wait("KubeletUnreachable", SOON_S, "asking the kubelet: nobody listens")),
    ],
)
def test_holders_are_looked_at_when_the_clients_are_away(
    world: Make, act: Callable[[World], None], expected: StepResult
) -> None:
    """Who comes after the drain is found before anything is recorded, and a kubelet that says nothing is waited for."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.grant()
    ending = changed_at_step(w, "check_holders", act)
    assert ("check_holders", expected) == (ending.step, ending.result)
    assert w.journal.intent is None


def test_holders_are_not_looked_at_when_nothing_is_to_go(world: Make) -> None:
    """While the new slices are waited for, the kubelet is asked once a pass."""
    w = granted(world)
    advance(w, "await_advertised")
    process = Process()
    assert "await_advertised" == w.run_pass(process).step
    assert 1 == process.names.count("kubelet list")
    w.kubelet_down = True
    assert "await_advertised" == w.run_pass().step


def test_recovery_waits_for_the_kubelet(world: Make) -> None:
    """A change that was cut short destroys nothing while nobody says who uses what."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    killed_at(w, "nvmlGpuInstanceDestroy done")
    half_done = w.shape()
    w.kubelet_down = True
    ending = w.run_pass(Process())
    assert ("finish_begun", "KubeletUnreachable") == (ending.step, getattr(ending.result, "reason", ""))
    assert half_done == w.shape()
    w.kubelet_down = False
    w.process = Process()
    assert "release: Done" == w.settle()[-1]


def test_pod_that_is_bound_before_a_recovery_cordons(world: Make) -> None:
    """A change that was cut short looks at holders behind its new cordon, not as they were before it."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)), gated=False, plugin_tolerates=True)
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    killed_at(w, "nvmlGpuInstanceDestroy done")
    assert "3g.40gb@4" in w.shape()[0]
    w.uncordon()
    w.admitting = False
    at(w, "patch Node", lambda w: w.pod("late", "nvidia.com/mig-3g.40gb"))
    assert "3g.40gb@4" in w.shape()[0]
