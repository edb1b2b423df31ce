"""Who else holds the GPU: pods that ask for nothing, programs of the host, GPU clients; as open device files show."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from mig_manager.agent.clients import GpuClient
from mig_manager.agent.context import Context
from mig_manager.agent.holding import holding
from mig_manager.agent.live import LiveHolders
from mig_manager.agent.pods import Pod
from mig_manager.geometry.layout import MigMode
from mig_manager.geometry.state import Holder, SliceKey
from mig_manager.gpu.holders import Users
from mig_manager.gpu.proc import User
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from tests.agent.layouts import every
from tests.agent.moments import killed_at, ready_message, said
from tests.agent.process import Process
from tests.agent.stories import CUT, Make, advance, granted
from tests.agent.worlds import A100, CLIENTS, H100, World

DONE = ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"]


def unasked(
    w: World,
    name: str,
    *files: str,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    selector: dict[str, str] | None = None,
) -> int:
    """A pod that asks for no GPU and has these device files open; the pid of its process."""
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], "nodeSelector": selector or {}},
    }
    uid = w.kube.create(POD, body, namespace)["metadata"]["uid"]
    return host(w, "python", *files, pod_uid=uid)


def host(w: World, command: str, *files: str, pod_uid: str = "") -> int:
    """A program with these device files open, of the host itself unless told; its pid."""
    pid = 900 + len(list(w.proc.root.iterdir()))
    w.proc.add(pid, command, files, pod_uid=pod_uid)
    return pid


def slice_files(w: World, start: int, card: int = 0) -> list[str]:
    """What a program opens to use the slice that begins there."""
    instance = next(i for i in w.machine.card(card).instances if i.start == start)
    return w.proc.files(card, instance.id, instance.compute[0].id)


# -- pods --


def test_pod_that_asks_for_nothing_is_named_and_never_evicted(world: Make) -> None:
    """A privileged pod on a slice that has to go keeps the node from being touched, by its name; then work goes on."""
    w = granted(world)
    pid = unasked(w, "sneaks", *slice_files(w, 2))
    assert ["take_up: InUse"] * 2 == w.settle(2)
    assert f"in use by default/sneaks by its pid {pid} (python); it asks for no GPU" in ready_message(w)
    assert [] == w.deleted
    w.assert_clean()
    w.proc.remove(pid)
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()
    assert [] == w.deleted


def test_pod_that_asks_for_nothing_on_a_slice_that_stays_is_left_alone(world: Make) -> None:
    """What it uses is not to go, so it is in nobody's way."""
    w = granted(world)
    unasked(w, "sneaks", *slice_files(w, 4))
    assert "release: Done" == w.settle()[-1]


def test_pod_that_comes_after_the_drain_is_seen_before_anything_is_destroyed(world: Make) -> None:
    """Looked at again when the clients are gone: nothing is destroyed under a pod that asked for nothing."""
    w = granted(world)
    advance(w, "pause_clients")
    pid = unasked(w, "sneaks", *slice_files(w, 2))
    before = w.shape()
    ended = w.settle(3)
    assert {"drain: InUse"} == set(ended)
    assert before == w.shape()
    w.proc.remove(pid)
    assert "release: Done" == w.settle()[-1]


def test_holder_is_looked_for_right_before_each_destroy(world: Make) -> None:
    """Open files are looked at by the same eyes that stand before every destroy."""
    w = granted(world)
    with w.agent() as agent, agent.ports.gpus.session() as session:
        cards = session.cards()
        look = LiveHolders(Context(agent.ports, agent.settings, agent.memory, node=w.node, pods=()))
        assert {} == look(session, [cards[0].uuid])
        pid = host(w, "nv-hostengine", *slice_files(w, 2))
        (key,) = look(session, [cards[0].uuid])
        assert {Holder(f"pid {pid} (nv-hostengine)")} == look(session, [cards[0].uuid])[key]


def test_pod_is_known_by_its_process_in_an_init_container(world: Make) -> None:
    """The kubelet lists no init containers; the process shows which slice a pod that asked for one uses."""
    w = granted(world)
    w.admitting = False
    w.pod("starts", "nvidia.com/mig-2g.20gb")
    uid = w.admin.get(POD, "starts", "default")["metadata"]["uid"]
    host(w, "python", *slice_files(w, 2), pod_uid=uid)
    w.run_pass()
    assert ["default/starts"] == w.status["plan"]["evict"]


def test_static_pods_are_known_by_the_hash_of_their_manifest() -> None:
    """Control groups name a static pod by its manifest's hash, and the API server by a uid of its own."""
    key = SliceKey("GPU-a", 7, 0)
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"kubernetes.io/config.mirror": "f00"}}
    pod = Pod({"metadata": metadata, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}})
    found = holding((), [pod], (), Users({key: frozenset({User(1, "a", "f00")})}), ())
    assert {key: {Holder("ns/p")}} == found.holders


@pytest.mark.parametrize(
    ("phase", "leaving", "holder"),
    [
        ("Running", False, Holder("ns/p by its pid 1 (a)")),
        ("Running", True, Holder("ns/p", leaving=True)),
        ("Failed", False, Holder("ns/p", leaving=True)),
    ],
)
def test_pod_that_is_on_its_way_is_waited_for(phase: str, leaving: bool, holder: Holder) -> None:
    """A pod that is leaving, or has ended with a process still there, only has to be waited for."""
    key = SliceKey("GPU-a", 7, 0)
    metadata = {"name": "p", "namespace": "ns", "uid": "u", **({"deletionTimestamp": "t"} if leaving else {})}
    pod = Pod({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}})
    found = holding((), [pod], (), Users({key: frozenset({User(1, "a", "u")})}), ())
    assert {key: {holder}} == found.holders


def test_pod_that_the_api_does_not_know_still_holds() -> None:
    """A pod deleted by force leaves its processes behind for a while; they count, and are waited for."""
    key = SliceKey("GPU-a", 7, 0)
    found = holding((), [], (), Users({key: frozenset({User(1, "a", "u")})}), ())
    assert {key: {Holder("pid 1 (a) of a pod that is unknown here", leaving=True)}} == found.holders


# -- programs of the host --


def test_program_of_the_host_is_named_with_a_hint(world: Make) -> None:
    """DCGM's host engine on a slice that has to go: named, with what to do; nothing of the host is ever stopped."""
    w = granted(world)
    pid = host(w, "nv-hostengine", *slice_files(w, 2))
    assert "take_up: InUse" == w.settle(1)[-1]
    assert f"in use by pid {pid} (nv-hostengine); DCGM's host engine: systemctl stop" in ready_message(w)
    w.assert_clean()


def test_program_of_the_host_on_a_pods_slice_is_named_beside_the_pod(world: Make) -> None:
    """A program that shares a pod's slice would still be there when the pod is gone: so the pod is not evicted."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    pid = host(w, "python", *slice_files(w, 2))
    assert ["take_up: InUse"] * 2 == w.settle(2)
    assert [] == w.deleted
    w.proc.remove(pid)
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == w.deleted


@pytest.mark.parametrize("command", ["nvidia-persiste", "monitor"])
def test_open_card_is_in_nobodys_way_while_slices_change(world: Make, command: str) -> None:
    """Whoever has only the card itself open uses none of its slices."""
    w = granted(world)
    host(w, command, *w.proc.files(0))
    assert "release: Done" == w.settle()[-1]
    assert DONE == w.shape()


@pytest.mark.parametrize(
    ("model", "command", "blocks"),
    [
        (A100, "nvidia-persiste", True),
        (A100, "Xorg", True),
        (H100, "Xorg", True),
        (H100, "nvidia-persiste", False),
    ],
)
def test_open_card_is_in_the_way_of_a_change_of_mode(world: Make, model: str, command: str, blocks: bool) -> None:
    """A reset takes the card from whoever has it open; without a reset persistenced does not mind."""
    w = world(model, mig=False)
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    pid = host(w, command, *w.proc.files(0))
    if not blocks:
        assert "release: Done" == w.settle()[-1]
        return
    assert ["take_up: InUse"] * 2 == w.settle(2)
    assert f"pid {pid} ({command}); " in ready_message(w)
    assert not w.machine.card(0).mig_pending
    w.proc.remove(pid)
    assert "release: Done" == w.settle()[-1]


def test_open_card_is_in_the_way_of_turning_mig_off(world: Make) -> None:
    """The other direction is a change of mode too."""
    w = world(A100)
    w.want(every(mig=MigMode.DISABLED))
    w.run_pass()
    w.grant()
    host(w, "Xorg", *w.proc.files(0))
    assert "take_up: InUse" == w.settle(1)[-1]


def test_own_open_files_do_not_count(world: Make) -> None:
    """The agent looks through the card's own file, and is not in its own way."""
    w = world(A100, mig=False)
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    pid = host(w, "mig-manager", *w.proc.files(0))
    (w.proc.root / "self").symlink_to(str(pid))
    assert "release: Done" == w.settle()[-1]


def test_processes_that_may_not_be_looked_at_are_said_once(world: Make, caplog: pytest.LogCaptureFixture) -> None:
    """An agent without the right to look says so, not in every pass, and again after it had it."""
    w = granted(world)
    unreadable = 3
    with w.agent() as agent:
        agent.ports = replace(agent.ports, users=lambda _, __: Users({}, unreadable))
        for _ in range(3):
            agent.run_pass()
        unreadable = 0
        agent.run_pass()
        unreadable = 2
        agent.run_pass()
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    text = (
        "the open files of {} processes cannot be read: the agent lacks CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH or hostPID"
    )
    assert [text.format(3), text.format(2)] == warned


# -- GPU clients --


def test_gpu_clients_are_in_nobodys_way_before_they_are_paused(world: Make) -> None:
    """A monitor among the GPU clients has slices open until it is sent away: that is no reason not to begin."""
    w = granted(world)
    gate = {"nvidia.com/gpu.deploy.dcgm-exporter": "true"}
    w.admin.patch(NODE, "n1", {"metadata": {"labels": gate}})
    labels = {"app": "nvidia-dcgm-exporter"}
    pid = unasked(w, "exporter", *slice_files(w, 2), labels=labels, namespace="gpu-operator", selector=gate)
    ended = w.settle(3)
    assert "pause_clients: PausingClients" == ended[-1]
    assert "gpu-operator/exporter" in ready_message(w)
    w.proc.remove(pid)
    w.kube.delete(POD, "exporter", "gpu-operator", grace_s=0)
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted


# -- nobody --


def test_ghost_holder_is_said_and_the_node_given_back(world: Make) -> None:
    """The driver goes on saying in use and nobody is there: tried for a while, taken back, said with what may help."""
    w = granted(world)
    ghost = w.machine.hold(0, start=2, visible=False)
    before = w.shape()
    for _ in range(10):
        if w.run_pass().step == "apply":
            break
        w.tick()
    state = w.grant_status
    assert ("Released", "RolledBack", "GhostHolder") == (state["state"], state["result"], state["reason"])
    assert ("True", "GhostHolder") == w.condition("Degraded")
    assert "nobody is to be seen there; restart DCGM and its exporter" in state["message"]
    assert before == w.shape()
    w.assert_clean()
    w.machine.free(pid=ghost.pid)
    w.tick(60)
    assert "release: Done" == w.settle(control=True)[-1]
    assert DONE == w.shape()


# -- clients of an administrator --

MONITOR = GpuClient("monitor", {"app": "monitor"}, when="mode-change")


def monitored(w: World, *files: str) -> int:
    """A monitor of somebody's own on the node; the pid of its process."""
    return unasked(w, "monitor", *files, labels={"app": "monitor"}, namespace="monitoring")


def passes(w: World, count: int, *clients: GpuClient) -> list[str]:
    """Passes of an agent with these clients beside the shipped ones; where they ended."""
    ended = []
    for _ in range(count):
        with w.agent(clients=(*CLIENTS, *clients)) as agent:
            ended.append(said(agent.run_pass()))
        w.tick()
    return ended


def test_client_of_ones_own_is_away_for_a_change_of_mode(world: Make) -> None:
    """A monitor that has the card open would keep MIG from being turned on; on the list it is sent away for it."""
    w = world(A100, mig=False)
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    pid = monitored(w, *w.proc.files(0))
    assert "take_up: InUse" == w.settle(1)[-1]
    assert "pause_clients: PausingClients" == passes(w, 1, MONITOR)[-1]
    w.proc.remove(pid)
    assert "release: Done" in passes(w, 10, MONITOR)
    assert ["monitoring/monitor"] == w.deleted
    w.assert_clean()


def test_client_of_ones_own_stays_while_slices_change(world: Make) -> None:
    """Where no mode changes it is left alone; on a slice that has to go it is named."""
    w = granted(world)
    pid = monitored(w, *w.proc.files(0), *slice_files(w, 2))
    assert "take_up: InUse" == passes(w, 1, MONITOR)[-1]
    w.proc.remove(pid)
    host(w, "monitor", *w.proc.files(0))
    assert "release: Done" in passes(w, 10, MONITOR)
    assert [] == w.deleted


def test_plugin_is_started_anew_where_a_change_ends_without_a_hold(world: Make) -> None:
    """The change was cut short and its MIGNode is gone: it is finished, and a plugin that only restarts sees that."""
    w = world(A100, cut=CUT, gated=False, plugin_tolerates=True)
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    killed_at(w, "nvmlGpuInstanceDestroy done")
    w.admin.delete(MIG_NODE, "n1")
    w.process = Process()
    w.tick()  # the plugin has come back meanwhile, and saw what was there in the middle
    plugin = w.plugin()
    assert plugin is not None
    w.run_pass()
    assert w.journal.intent is None
    (pod,) = (p for p in w.kube.list(POD, "gpu-operator").items if p["metadata"]["uid"] == plugin["metadata"]["uid"])
    assert "deletionTimestamp" in pod["metadata"]
    w.assert_clean()
