"""Between the record and the first destroy everything is looked at once more; what has changed drops the record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mig_manager.agent.results import SOON_S, StepResult, Wait
from mig_manager.kube.kinds import MIG_NODE, NODE
from tests.agent.layouts import every
from tests.agent.moments import at, killed_at, once
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
    process, ending = once(w, lambda p: p.names[-1:] == ["journal begun"], act)
    calls = process.names[process.names.index("journal begun") + 1 :]
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
    # The second read of the kubelet's list in a pass is check_holders', right before begin.
    process, _ = once(w, lambda p: p.names.count("kubelet list") == 2, act)
    assert "journal begin" not in process.names
    assert before == w.shape()


def comes(w: World) -> None:
    """A program of the host takes the slice that goes."""
    w.machine.hold(0, start=2, pid=4_190_000)


def kubelet_goes(w: World) -> None:
    """The kubelet answers no more."""
    w.kubelet_down = True


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
    _, ending = once(w, lambda p: p.step == "check_holders", act)
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
