"""What the agent may not do, and what it cannot read or write for a time."""

from __future__ import annotations

from mig_manager.agent.results import Refuse
from mig_manager.kube.errors import ForbiddenError
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every
from tests.agent.process import Fault, Process
from tests.agent.stories import GOING, Make, advance, applied, blocked, granted


def test_what_the_agent_may_not_do_is_reported(world: Make) -> None:
    """A refusal of the API server is an answer: it stands in the status, with the request that was refused."""
    w = granted(world)

    def deny(doing: str) -> ForbiddenError:
        return ForbiddenError(doing, "not in this cluster")

    ending = w.run_pass(Process(fault=Fault(7, deny)))
    assert ("cordon", Refuse("Forbidden", "patch Node: not in this cluster")) == (ending.step, ending.result)
    assert ("False", "Forbidden") == w.ready


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
