"""What the agent may not do, and what it cannot read or write for a time."""

from __future__ import annotations

import pytest

from mig_manager.agent.names import CORDONED
from mig_manager.agent.outcome import DRIVER_S
from mig_manager.agent.results import Refuse
from mig_manager.kube.errors import ConflictError, ForbiddenError
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every
from tests.agent.moments import ready_message, said
from tests.agent.process import WEBHOOK_DOWN, Broken, Fault, Process
from tests.agent.stories import GOING, Make, advance, applied, blocked, failed, granted
from tests.agent.worlds import World


def test_what_the_agent_may_not_do_is_reported(world: Make) -> None:
    """A refusal of the API server is an answer: it stands in the status, with the request that was refused."""
    w = granted(world)

    def deny(doing: str) -> ForbiddenError:
        return ForbiddenError(doing, "not in this cluster")

    ending = w.run_pass(Process(fault=Fault(7, deny)))
    assert ("cordon", Refuse("Forbidden", "patch Node: not in this cluster")) == (ending.step, ending.result)
    assert ("False", "Forbidden") == w.ready


# -- what fails while other requests come through --


@pytest.mark.parametrize(
    ("fails", "step"), [("evict-dry-run Pod", "drain"), ("evict Pod", "drain"), ("patch Node", "cordon")]
)
def test_step_that_goes_on_failing_is_reported(world: Make, fails: str, step: str) -> None:
    """A webhook is down: the MIGNode says at which step, and in the server's words, once; else all is as before."""
    w = granted(world)
    w.pod("goes", GOING)
    before = w.status
    for writes in (2, 0):  # the grant is taken up, and the failure said
        process = Broken(fails=(fails,))
        ending = w.run_pass(process)
        assert (step, Refuse("Unavailable", f"{fails}: {WEBHOOK_DOWN}")) == (ending.step, ending.result)
        assert writes == process.names.count("patch MIGNode")
        assert ("False", "Unavailable") == w.ready
        assert (step, f"{fails}: {WEBHOOK_DOWN}") == (w.status["step"], ready_message(w))
    assert "Held" == w.grant_status["state"]
    assert [before[kept] for kept in ("plan", "gpus")] == [w.status[kept] for kept in ("plan", "gpus")]
    assert [] == w.deleted
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == [name for name in w.deleted if name.startswith("default/")]


def test_timeout_of_a_drain_says_what_failed(world: Make) -> None:
    """Where evictions fail until the time is over, the last word of the attempt is why."""
    w = granted(world, drain={"timeoutSeconds": 30})
    w.pod("goes", GOING)
    for _ in range(2):
        ending = w.run_pass(Broken(fails=("evict-dry-run Pod",)))
        w.tick(31)
    assert "stand_down: DrainTimeout" == said(ending)
    assert WEBHOOK_DOWN in w.grant_status["message"]
    w.assert_clean()


def test_failure_promises_nothing(world: Make) -> None:
    """A node that is Degraded stays so until a pass has come to its end, and no generation is answered."""
    w = failed(world)
    degraded, answered = w.condition("Degraded"), w.status["observedGeneration"]
    assert "True" == degraded[0]
    w.want(every("7g"))
    assert "retract: Unavailable" == said(w.run_pass(Broken(fails=("patch Node",))))
    assert "Unavailable" == w.ready[1]
    assert (degraded, answered) == (w.condition("Degraded"), w.status["observedGeneration"])
    assert answered < w.mignode["metadata"]["generation"]


@pytest.mark.parametrize("fails", [("evict-dry-run Pod", "patch MIGNode"), ("list Pod",)], ids=str)
def test_failure_that_only_the_log_says(world: Make, fails: tuple[str, ...]) -> None:
    """It cannot be written, or not everything was read: the status stays, and the pass ends with what failed first."""
    w = blocked(world)
    before = w.status
    assert Refuse("Unavailable", f"{fails[0]}: {WEBHOOK_DOWN}") == w.run_pass(Broken(fails=fails)).result
    assert before == w.status


def test_conflict_is_no_news(world: Make) -> None:
    """It is over at once, and nobody is told."""
    w = granted(world)
    assert "cordon: Conflict" == said(w.run_pass(Broken(fails=("patch Node",), error=ConflictError)))
    assert ("False", "WaitingForTurn") == w.ready


def test_status_is_written_where_labels_cannot_be(world: Make) -> None:
    """Somebody stands in the way of a node that waits: its label lags, and its plan is told all the same."""
    w = granted(world)
    w.revoke()
    w.run_pass()
    w.pod("bare", GOING, owner="")
    ending = w.run_pass(Broken(fails=("patch Node",)))
    assert "report: Unavailable" == said(ending)
    assert ("BarePod", "pending") == (w.status["plan"]["reason"], w.labels["state"])
    w.run_pass()
    assert "blocked" == w.labels["state"]


# -- what cannot be read or written on this machine --


def test_damaged_journal_promises_nothing(world: Make) -> None:
    """While the host file cannot be read nobody knows what is open: no generation is answered, the cards stay shown."""
    w = applied(world)
    shown = w.status["gpus"]
    w.path.write_text("{", encoding="utf-8")
    w.leave_pool()
    assert "observe: JournalError" == w.settle(1)[-1]
    assert ("False", "JournalError") == w.ready
    assert w.mignode["metadata"]["generation"] > w.status["observedGeneration"]
    assert shown == w.status["gpus"]


def test_full_disk_keeps_no_node_closed(world: Make) -> None:
    """Another layout is wanted and the grant is revoked while the host file cannot be written: the node is let go."""
    w = granted(world)
    w.pod("train", GOING, owner="Job")
    advance(w, "drain")
    w.path.with_name("journal.json.tmp").mkdir()
    w.want(every("2g*3"))
    w.revoke()
    assert ["stand_down: GrantRevoked", "take_up: JournalError"] == w.settle(2)
    w.assert_clean()


def test_driver_appears_later(world: Make) -> None:
    """A library that is missing is waited for; when it is there everything goes on, without a restart."""
    w = granted(world)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    assert "take_up: DriverNotReady" == w.settle(2)[-1]
    assert ("False", "DriverNotReady") == w.ready
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_driver_goes_away_while_draining(world: Make) -> None:
    """Without a driver nothing can go on: the node is given back."""
    w = blocked(world)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    assert "stand_down: DriverNotReady" == w.settle(1)[-1]
    w.assert_clean()


READ = "nvmlDeviceGetMigMode"


def ending_pod(make: Make) -> World:
    """A node on which the pod that has to go was just evicted."""
    w = granted(make)
    w.pod("goes", GOING)
    advance(w, "drain")
    return w


def test_driver_that_fails_for_a_moment(world: Make) -> None:
    """The node is not let go for it, which would make the eviction one for nothing; each moment counts for itself."""
    w = ending_pod(world)
    w.ends = lambda _: False
    shape = w.shape()
    for _ in range(2):
        w.machine.inject(READ, code=NvmlCode.UNKNOWN)
        assert ["take_up: GpuError"] * 2 == w.settle(2, seconds=DRIVER_S)
        assert ("Held", shape) == (w.grant_status["state"], w.shape())
        assert CORDONED in w.annotations
        assert ("False", "GpuError") == w.ready
        w.machine.clear_faults()
        assert ["drain: Draining"] == w.settle(1)
    w.ends = lambda _: True
    w.tick()
    assert not [e for e in w.settle() if e.startswith("stand_down")]
    assert ["default/goes"] == [name for name in w.deleted if name.startswith("default/")]
    assert "Applied" == w.grant_status["result"]


def test_driver_that_goes_on_failing(world: Make) -> None:
    """After half a minute the node is given back."""
    w = ending_pod(world)
    w.machine.inject(READ, code=NvmlCode.UNKNOWN)
    assert ["take_up: GpuError", "stand_down: GpuError"] == w.settle(2, seconds=DRIVER_S + 1)
    w.assert_clean()


@pytest.mark.parametrize("code", [NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED])
def test_card_that_does_nothing_any_more(world: Make, code: NvmlCode) -> None:
    """That is no matter of seconds: the node is given back at once."""
    w = ending_pod(world)
    w.machine.inject(READ, code=code)
    assert w.settle(1)[-1].startswith("stand_down: ")
    w.assert_clean()


def test_node_that_is_uncordoned_while_the_driver_fails(world: Make) -> None:
    """Whoever uncordoned it is heard in that pass: afterwards nothing tells of our cordon, and it would come again."""
    w = ending_pod(world)
    w.uncordon()
    w.machine.inject(READ, code=NvmlCode.UNKNOWN)
    assert ["stand_down: GpuError"] == w.settle(1)
    w.assert_clean()


def test_kubelet_that_does_not_answer(world: Make) -> None:
    """Without the kubelet's word on who holds what nothing is begun, and labels promise nothing."""
    w = applied(world)
    w.kubelet_down = True
    w.want(every("7g"), profile="q")
    w.run_pass()
    w.grant()
    assert "take_up: KubeletUnreachable" == w.settle(2)[-1]
    assert "mig-1g.10gb" not in w.labels
    # It is looked at again with growing distance.
    assert isinstance(w.run_pass().result, Refuse)
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]
