"""What the node exposes: slices that nobody advertises, numbers that lag behind, plugins that do not see the cards."""

from __future__ import annotations

from typing import Any

import pytest

from mig_manager.agent.names import PAUSED_WORD, STARTUP_TAINT
from mig_manager.agent.nudging import NUDGE_AFTER_S
from mig_manager.agent.pods import Pod
from mig_manager.kube.errors import UnavailableError
from mig_manager.kube.kinds import EVENT, NODE, POD
from mig_manager.sim.node.plugin_devices import Enumeration
from tests.agent.layouts import every
from tests.agent.moments import ready_message, said
from tests.agent.process import NoDeletions, Process
from tests.agent.stories import CREATE, TARGET, Make, advance, applied, granted
from tests.agent.worlds import PLUGIN_GATE, UNGATED, World

DONE = ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"]


class LaggingKubelet:
    """A kubelet that goes on offering what a plugin that is gone has registered, for as long as it ``lags``."""

    def __init__(self, w: World) -> None:
        self.lags = True
        self.world = w
        self.act = w.plays_daemon_set
        w.plays_daemon_set = self

    def __call__(self) -> None:
        """What a DaemonSet does, and the kubelet after it."""
        before = self.world.offered
        self.act()
        if self.world.plugin() is None:
            self.world.offered = before if self.lags else {}


def tolerant_plugin(w: World) -> None:
    """A second device plugin, which no label and no taint keeps away."""
    body = {
        "metadata": {"name": "second", "labels": UNGATED},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "nvidia-device-plugin"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    w.kube.create(POD, body, "kube-system")


def test_slices_are_not_cut_while_the_kubelet_offers_them(world: Make) -> None:
    """The plugin's pod is gone, but the kubelet could still place a pod on a slice: it is waited for, and said."""
    w = granted(world)
    before = w.shape()
    kubelet = LaggingKubelet(w)
    assert ["pause_clients: PausingClients"] * 4 == w.settle(4)
    assert w.plugin() is None
    assert "the kubelet still offers nvidia.com/mig-1g.10gb" in ready_message(w)
    assert before == w.shape()
    kubelet.lags = False
    w.tick()
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()
    w.assert_clean()


def test_offers_of_a_plugin_that_cannot_be_kept_away_are_not_waited_for(world: Make) -> None:
    """Where a plugin tolerates everything the kubelet goes on offering; it is started anew before and after instead."""
    w = granted(world)
    LaggingKubelet(w)
    tolerant_plugin(w)
    advance(w, "pause_clients")
    w.tick()
    assert PAUSED_WORD == w.node["metadata"]["labels"][PLUGIN_GATE]
    ended = w.settle()
    assert "pause_clients: PausingClients" not in ended
    assert "release: Done" == ended[-1]
    assert DONE == w.shape()
    assert "kube-system/second" in w.deleted
    w.assert_clean()


def test_slices_without_a_device_plugin(world: Make) -> None:
    """Under strategy None nobody advertises: nothing is waited for, and labels and status say what is on the cards."""
    w = granted(world)
    w.want(TARGET, strategy="None")
    w.grant()
    plugin = w.plugin()
    assert plugin is not None
    w.plays_daemon_set = lambda: None
    w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
    w.offered = {}
    assert ["release: Done"] == w.settle()
    assert DONE == w.shape()
    assert ("3", "1") == (w.labels["mig-1g.10gb"], w.labels["mig-3g.40gb"])
    assert {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1} == w.status["resources"]
    assert "take_up: Done" == said(w.run_pass())
    w.assert_clean()


def test_node_is_not_released_before_its_allocatable_is_right(world: Make) -> None:
    """The scheduler counts by the Node's allocatable: while that lags behind the kubelet the node stays cordoned."""
    w = granted(world)
    advance(w, "pause_clients")
    report, w.reports = w.reports, lambda: None
    w.kube.patch(NODE, "n1", {"status": {"allocatable": None}}, subresource="status")
    assert "await_advertised: AwaitingAdvertised" == w.settle(4)[-1]
    assert (
        "the Node's allocatable says nothing instead of 3 × nvidia.com/mig-1g.10gb, 1 × nvidia.com/mig-3g.40gb"
        == ready_message(w)
    )
    assert w.node["spec"]["unschedulable"]
    w.reports = report
    w.tick()
    assert "release: Done" == w.settle()[-1]
    w.assert_clean()


def plugins(w: World) -> list[str]:
    """The uids of the plugin's pods that were ever there."""
    bodies: list[dict[str, Any]] = [v.body or {} for v in w.store.history_since(0) if v.key[0] == POD]
    uids = [b["metadata"]["uid"] for b in bodies if b and b["metadata"]["name"].startswith("plugin-")]
    return list(dict.fromkeys(uids))


def moved(w: World) -> None:
    """Somebody deletes a slice and makes an equal one: the plugin goes on offering the one that is gone."""
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g", start=3)


def test_plugin_is_not_restarted_while_the_kubelet_is_silent(world: Make) -> None:
    """A kubelet that does not answer says nothing about the plugin: it runs on, however long that takes."""
    w = applied(world)
    w.tick()
    before = plugins(w)
    w.kubelet_down = True
    ended = w.settle(4, seconds=NUDGE_AFTER_S)
    assert {"take_up: NotAdvertised"} == set(ended)
    assert "nobody listens" in ready_message(w)
    assert before == plugins(w)
    w.kubelet_down = False
    assert "take_up: Done" == w.settle(1)[-1]


def test_plugin_that_does_not_learn_is_restarted_once(world: Make) -> None:
    """More of it does not help a plugin that cannot advertise these devices; other devices are worth another try."""
    w = applied(world)
    w.tick()
    before = plugins(w)
    stale = w.enumerates()
    w.enumerates = lambda: stale
    moved(w)
    w.settle(8, seconds=NUDGE_AFTER_S)
    assert len(before) + 1 == len(plugins(w))
    w.machine.remove_instance(0, start=1)
    w.machine.add_instance(0, "1g", start=0)
    w.settle(8, seconds=NUDGE_AFTER_S)
    assert len(before) + 2 == len(plugins(w))


def test_plugin_that_is_only_starting_is_left_to_start(world: Make) -> None:
    """A plugin that is not ready yet has not looked at the cards for good: it is not restarted."""
    w = applied(world)
    w.tick()
    plugin = w.plugin()
    assert plugin is not None
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    w.kube.patch(POD, plugin["metadata"]["name"], conditions, "gpu-operator", subresource="status")
    before = plugins(w)
    moved(w)
    assert {"take_up: NotAdvertised"} == set(w.settle(4, seconds=NUDGE_AFTER_S))
    assert before == plugins(w)
    conditions["status"]["conditions"][0]["status"] = "True"
    w.kube.patch(POD, plugin["metadata"]["name"], conditions, "gpu-operator", subresource="status")
    w.settle(2)
    assert len(before) + 1 == len(plugins(w))


def test_plugin_that_may_not_be_restarted_keeps_the_node_degraded(world: Make) -> None:
    """Where the agent has not that right, people read what to do, for as long as nobody can have the slices."""
    w = applied(world)
    w.tick()
    moved(w)
    w.process = NoDeletions()
    ended = w.settle(6, seconds=NUDGE_AFTER_S)
    assert {"take_up: NotAdvertised"} == set(ended)
    assert ("True", "NotAdvertised") == w.condition("Degraded")
    assert "does not see the cards as they are and must be deleted by hand" in ready_message(w)
    w.process = Process()
    w.settle(2)
    assert "take_up: Done" == w.settle(1)[-1]
    assert ("False", "AsExpected") == w.condition("Degraded")


def test_plugin_is_given_time_whenever_it_has_been_right_meanwhile(world: Make) -> None:
    """After the kubelet's restart it registers again within seconds; that it was late once, days ago, is no reason."""
    w = applied(world)
    w.tick()
    before, offered = plugins(w), w.offered
    w.plays_daemon_set = lambda: None
    for _ in range(2):
        w.offered = {}
        assert ["take_up: NotAdvertised"] == w.settle(1)
        w.offered = offered
        w.tick(10 * NUDGE_AFTER_S)
        assert ["take_up: Done"] == w.settle(1)
    assert before == plugins(w)
    assert [] == w.deleted


def test_repair_waits_for_its_own_plugin(world: Make) -> None:
    """A plugin that came too late once has its whole time again when the slices are repaired under the same grant."""
    w = applied(world)
    w.tick()
    w.enumerates = Enumeration
    for _ in range(2):
        w.machine.remove_instance(0, start=1)
        advance(w, "await_advertised")
        ended = w.settle(40, seconds=10)
        assert "release: NotAdvertised" in ended
        assert ended.index("release: NotAdvertised") > 20


# -- a plugin that comes back in the moment of the cut --


def plugin_is_gone(make: Make) -> World:
    """A granted node whose plugin is not deployed: its deploy label is absent."""
    w = granted(make)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: None}}})
    w.tick()
    assert w.plugin() is None
    return w


def comes_back(w: World, at: str, *, runs_s: float) -> None:
    """Somebody sets the label at that call of the agent; the plugin starts and looks at the cards."""

    def look() -> None:
        if w.process.names[-1] == at and w.plugin() is None:
            w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "true"}}})
            w.plays_daemon_set()
            w.clock.sleep(runs_s)

    w.process.look = look


def stale_plugins(w: World) -> int:
    """How many Events say that a plugin was older than the cut."""
    return sum(e["count"] for e in w.admin.list(EVENT).items if e["reason"] == "StaleDevicePlugin")


@pytest.mark.parametrize("at", ["journal begun", "nvmlGpuInstanceDestroy", CREATE])
@pytest.mark.parametrize("runs_s", [0.0, 2.0])
def test_plugin_that_comes_back_in_the_moment_of_the_cut(world: Make, at: str, runs_s: float) -> None:
    """It offers what it saw then: it is started anew at once, and the node is Ready in seconds and never Degraded."""
    w = plugin_is_gone(world)
    before, start = plugins(w), w.clock.now()
    comes_back(w, at, runs_s=runs_s)
    ended = w.settle()
    assert "release: Done" == ended[-1]
    assert len(before) + 2 == len(plugins(w))
    assert 2 == stale_plugins(w)  # on the Node and on the MIGNode
    assert (w.clock.now() - start).total_seconds() < 30
    assert {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1} == w.status["resources"]
    w.assert_clean()


def test_plugin_from_before_the_cut_is_restarted_once(world: Make) -> None:
    """One that cannot advertise the new slices is not started anew again and again, and people read why it was."""
    w = plugin_is_gone(world)
    before, old = plugins(w), w.enumerates()
    comes_back(w, "journal begun", runs_s=2.0)
    w.enumerates = lambda: old
    advance(w, "await_advertised")
    assert "runs since before the cards were changed and is started anew" in ready_message(w)
    ended = w.settle(20, seconds=5)
    assert {"await_advertised: AwaitingAdvertised"} == set(ended)
    assert len(before) + 2 == len(plugins(w))


def test_old_plugin_that_may_not_be_deleted_is_waited_for(world: Make) -> None:
    """Where the agent has not that right it says so, and goes on to the deadline as with any other."""
    w = plugin_is_gone(world)
    w.process = NoDeletions()
    comes_back(w, "journal begun", runs_s=2.0)
    advance(w, "await_advertised")
    assert "must be deleted by hand" in ready_message(w)
    assert "release: NotAdvertised" in w.settle(20, seconds=20)
    assert 2 == stale_plugins(w)  # once on each, and not again in every pass
    w.assert_clean()


class FirstDeletionFails(Process):
    """The API server does not answer the first deletion of a pod."""

    def request(self, doing: str, *, answered: bool) -> None:
        """Say nothing, once."""
        super().request(doing, answered=answered)
        if doing == "delete Pod" and 1 == self.names.count(doing):
            raise UnavailableError(doing, "timed out")


def test_old_plugin_is_restarted_although_the_request_failed_once(world: Make) -> None:
    """A server that does not answer for a moment is asked again; otherwise the plugin would be forgotten."""
    w = plugin_is_gone(world)
    before, start = plugins(w), w.clock.now()
    w.process = FirstDeletionFails()
    comes_back(w, "journal begun", runs_s=2.0)
    ended = w.settle()
    assert "await_advertised: Unavailable" in ended
    assert "release: Done" == ended[-1]
    assert len(before) + 2 == len(plugins(w))
    assert (w.clock.now() - start).total_seconds() < 30


@pytest.mark.parametrize("started", [False, True])
def test_plugin_from_after_the_cut_is_left_to_start(world: Make, started: bool) -> None:
    """Younger than the cut and nothing offered yet, or older and not ready: neither is started anew."""
    w = granted(world)
    advance(w, "await_advertised")
    w.tick()
    plugin = w.plugin()
    assert plugin is not None
    w.offered = {}
    w.plays_daemon_set = lambda: None
    status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
    if not started:
        status = {"conditions": [], "containerStatuses": [running_since("2026-01-01T00:00:00Z")]}
    w.kube.patch(POD, plugin["metadata"]["name"], {"status": status}, "gpu-operator", subresource="status")
    before = plugins(w)
    assert {"await_advertised: AwaitingAdvertised"} == set(w.settle(9))
    assert before == plugins(w)


def running_since(time: str) -> dict[str, Any]:
    """A container that runs."""
    return {"name": "c", "state": {"running": {"startedAt": time}}}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], None),
        ([{"name": "c", "state": {"waiting": {}}}, {"name": "d"}], None),
        ([running_since("2026-01-02T00:00:00Z"), running_since("2026-01-01T00:00:00Z")], "2026-01-02T00:00:00+00:00"),
    ],
)
def test_pod_is_as_young_as_the_last_container_that_runs(statuses: list[Any], expected: str | None) -> None:
    """A plugin whose container was restarted has looked at the cards since."""
    started = Pod({"status": {"containerStatuses": statuses}}).started
    assert expected == (started.isoformat() if started else None)


def test_startup_taint_stays_under_another_wish(world: Make) -> None:
    """Work that is done for a grant that is no longer what is wanted does not open a node that has just registered."""
    w = granted(world)
    w.plugin_tolerates = True
    taint = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
    w.admin.patch(NODE, "n1", {"spec": {"taints": [taint]}})
    advance(w, "await_advertised")
    w.want(every("7g"), profile="q")
    assert "release: WaitingForTurn" in w.settle(3)
    assert DONE == w.shape()
    assert "pending" == w.labels["state"]
    assert [taint] == w.node["spec"]["taints"]
    w.assert_clean()


def test_stale_plugin_is_restarted_also_while_the_node_waits_for_its_turn(world: Make) -> None:
    """The turn may be long in coming: what is there until then is offered, and the message says that it was not."""
    w = applied(world)
    w.tick()
    before = plugins(w)
    moved(w)
    w.want(every("1g*7"))
    w.run_pass()
    assert ("False", "WaitingForTurn") == w.ready
    assert "meanwhile the kubelet does not list all of nvidia.com/mig-1g.10gb" in ready_message(w)
    assert {"take_up: WaitingForTurn"} == set(w.settle(4, seconds=NUDGE_AFTER_S))
    assert len(before) + 1 == len(plugins(w))
    assert "kubelet" not in ready_message(w)
