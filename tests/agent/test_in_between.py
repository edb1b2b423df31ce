"""What changes in the middle of a pass: driver, kubelet, grant and people act between two steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mig_manager.agent import acts
from mig_manager.agent.context import Context
from mig_manager.agent.names import CORDONED, PAUSED, PAUSED_WORD
from mig_manager.agent.results import CONTINUE, SOON_S, Refuse, Wait
from mig_manager.api.layout import layout_to_dict
from mig_manager.gpu.port import GpuError
from mig_manager.kube.kinds import MIG_NODE, NODE, POD_DISRUPTION_BUDGET
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every
from tests.agent.moments import at, ready_message, said
from tests.agent.process import KilledError
from tests.agent.stories import Make, advance, blocked, granted
from tests.agent.worlds import A100, PLUGIN_GATE, World

DONE = ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"]
DESTROYED = "nvmlGpuInstanceDestroy done"


def driver_goes(w: World) -> None:
    """The driver is unloaded."""
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)


def kubelet_goes(w: World) -> None:
    """The kubelet stops answering."""
    w.kubelet_down = True


def die(_: World) -> None:
    """The agent's process is killed."""
    raise KilledError


def cut_short(w: World) -> list[str]:
    """Let the agent die after its first destroy; the cards as it leaves them."""
    with pytest.raises(KilledError):
        at(w, DESTROYED, die)
    assert w.journal.intent is not None
    return w.shape()


def test_driver_that_goes_while_clients_are_away(world: Make) -> None:
    """Cards that cannot be looked at any more are not cut; the node is given back, and the work is done later."""
    w = granted(world)
    before = w.shape()
    advance(w, "pause_clients")
    w.tick()
    ending = at(w, "kubelet list", driver_goes)
    assert "check_holders: DriverNotReady" == said(ending)
    assert isinstance(ending.result, Refuse)
    assert before == w.shape()
    assert "stand_down: DriverNotReady" == w.settle(1)[-1]
    w.assert_clean()
    w.machine.clear_faults()
    w.clock.sleep(60)
    assert "release: Done" == w.settle(control=True)[-1]
    assert DONE == w.shape()


def test_kubelet_that_goes_before_the_holders_are_looked_at(world: Make) -> None:
    """Clients are away, and nobody says who uses what: nothing is destroyed before the kubelet answers again."""
    w = granted(world)
    before = w.shape()
    ending = at(w, "kubelet list", kubelet_goes, time=2)
    assert "check_holders: KubeletUnreachable" == said(ending)
    assert before == w.shape()
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]
    w.assert_clean()


def test_kubelet_that_goes_after_the_record(world: Make) -> None:
    """The last look at the holders fails: nothing is destroyed, and the record that was begun is dropped."""
    w = granted(world)
    before = w.shape()
    ending = at(w, "journal begun", kubelet_goes)
    assert "apply: KubeletUnreachable" == said(ending)
    assert isinstance(ending.result, Wait)
    w.run_pass()
    assert before == w.shape()
    assert w.journal.intent is None
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()
    w.assert_clean()


def test_kubelet_that_goes_while_draining(world: Make) -> None:
    """Nobody is evicted on the word of a kubelet that does not answer."""
    w = blocked(world)
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    w.kubelet_down = True
    assert ["drain: KubeletUnreachable"] * 3 == w.settle(3)
    assert [] == w.deleted
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == w.deleted


def test_clients_resumed_by_hand_after_the_record(world: Make) -> None:
    """Somebody takes the pause back, annotation and label: what may be used from now on is not destroyed."""

    def resume(w: World) -> None:
        metadata = {"annotations": {PAUSED: None}, "labels": {PLUGIN_GATE: "true"}}
        w.admin.patch(NODE, "n1", {"metadata": metadata})

    w = granted(world)
    before = w.shape()
    assert "apply: ClientsResumed" == said(at(w, "journal begun", resume))
    assert before == w.shape()
    assert w.journal.intent is None
    assert "release: Done" == w.settle()[-1]
    w.assert_clean()


def test_grant_revoked_between_read_and_claim(world: Make) -> None:
    """The claim carries the version that was read: a grant that was revoked since is not taken up."""
    w = granted(world)
    assert "take_up: Conflict" == said(at(w, "patch MIGNode", World.revoke))
    assert {} == w.grant_status
    w.settle(3)
    assert {} == w.grant_status
    w.assert_clean()


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"layout": layout_to_dict(every("7g", "1g"))}, "PlanChanged"),
        ({"layout": layout_to_dict(every("7g")), "maxImpact": "None"}, "PlanChanged"),
        ({"layout": layout_to_dict(every("1g*7"))}, "InUse"),
    ],
    ids=["infeasible", "beyond the limit", "in use"],
)
def test_grant_whose_terms_change_under_its_id(world: Make, terms: dict[str, object], reason: str) -> None:
    """What is begun is the plan of the last read's terms: one that may not be carried out begins nothing."""
    w = granted(world)
    w.pod("keeps", "nvidia.com/mig-3g.40gb")
    before = w.shape()

    def change(w: World) -> None:
        w.admin.patch(MIG_NODE, "n1", {"spec": {"grant": terms}})

    assert f"begin: {reason}" == said(at(w, "kubelet list", change, time=2))
    assert before == w.shape()
    assert w.journal.intent is None
    assert "default/keeps" in w.running


# -- a change that was cut short --


def test_recovery_waits_for_the_driver(world: Make) -> None:
    """With a record open and no driver nothing else is done, and the node stays out; then the change is finished."""
    w = granted(world)
    half_done = cut_short(w)
    driver_goes(w)
    assert ["finish_begun: DriverNotReady"] * 2 == w.settle(2)
    assert half_done == w.shape()
    assert w.node["spec"]["unschedulable"]
    assert CORDONED in w.annotations
    assert "an unfinished change waits for the driver" in ready_message(w)
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()
    w.assert_clean()


def test_recovery_sends_clients_away_first(world: Make) -> None:
    """Somebody has brought the plugin back while the agent was dead: it goes again before anything more is cut."""
    w = granted(world)
    half_done = cut_short(w)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
    w.tick()
    assert w.plugin() is not None
    assert "finish_begun: PausingClients" == said(w.run_pass())
    assert half_done == w.shape()
    w.tick()
    assert w.plugin() is None
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()
    w.assert_clean()


# -- the guards themselves --


@contextmanager
def context(w: World) -> Iterator[Context]:
    """A pass's context on the Node as it is."""
    with w.agent() as agent:
        yield Context(agent.ports, agent.settings, agent.memory, node=w.node, pods=())


def test_node_is_not_cordoned_without_a_right(world: Make) -> None:
    """Rule A4: an available node that is not held stays schedulable, whoever asks; one that is down may be cordoned."""
    w = world(A100)
    no_slot = "the node is available, and no slot is held for taking it out"
    with context(w) as ctx:
        assert Wait("NodeAvailable", SOON_S, no_slot) == acts.cordon(ctx)
    assert not w.node["spec"].get("unschedulable")
    assert CORDONED not in w.annotations
    w.set_ready(ready=False)
    with context(w) as ctx:
        assert CONTINUE == acts.cordon(ctx)
    assert w.node["spec"]["unschedulable"]
    assert CORDONED in w.annotations


def test_unreadable_cards_do_not_lack_slices(world: Make) -> None:
    """A driver that does not answer says nothing about slices: the node does not count as unavailable for that."""
    w = granted(world)
    w.settle()
    with context(w) as ctx:
        ctx.record = w.journal
        readable = ctx.lacking
        ctx.driver_error = GpuError("looking at the cards", "driver not loaded", 9)
        assert [True, False, False] == [readable, ctx.lacking, ctx.unavailable]


def test_offers_of_a_plugin_that_was_not_sent_away_are_not_waited_for(world: Make) -> None:
    """Somebody runs the operator's plugin elsewhere and another one here: what that one offers does not go away."""
    w = world(A100, cut=(("3g", 4),))
    gate = "nvidia.com/gpu.deploy.dcgm-exporter"
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "elsewhere", gate: "true"}}})
    with context(w) as ctx:
        ctx.allocatable = w.kubelet_allocatable()
        assert CONTINUE == acts.pause(ctx)
    assert ("elsewhere", PAUSED_WORD) == tuple(w.node["metadata"]["labels"][label] for label in (PLUGIN_GATE, gate))
