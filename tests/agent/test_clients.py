"""GPU clients are sent away and come back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from mig_manager.agent.clients import GpuClient
from mig_manager.agent.context import Memory
from mig_manager.agent.labels import promises
from mig_manager.agent.names import PAUSE_TAINT, PAUSED_WORD
from mig_manager.agent.results import SOON_S, Wait
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.kube.drain.classify import MIRROR
from mig_manager.kube.kinds import NODE, POD
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.layouts import every
from tests.agent.moments import ready_message, said
from tests.agent.process import NoDeletions, Process
from tests.agent.stories import CUT, GOING, TARGET, Make, advance, applied, granted, versions
from tests.agent.worlds import A100, PLUGIN_GATE, UNGATED, World, owned_by


def test_clients_are_restored_as_they_were(world: Make) -> None:
    """Deploy labels have their former values afterwards, also empty and foreign ones."""
    w = granted(world)
    gates = {
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.dcgm": "false",
        "nvidia.com/gpu.deploy.gpu-feature-discovery": "",
    }
    w.admin.patch(NODE, "n1", {"metadata": {"labels": gates}})
    w.kube.create(
        POD,
        {
            "metadata": {"name": "gfd", "labels": {"app": "gpu-feature-discovery"}},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c"}],
                "nodeSelector": {"nvidia.com/gpu.deploy.gpu-feature-discovery": "true"},
            },
        },
        "gpu-operator",
    )
    advance(w, "pause_clients")
    labels = w.node["metadata"]["labels"]
    assert [PAUSED_WORD, PAUSED_WORD, "false", PAUSED_WORD] == [
        labels[PLUGIN_GATE],
        labels["nvidia.com/gpu.deploy.dcgm-exporter"],
        labels["nvidia.com/gpu.deploy.dcgm"],
        labels["nvidia.com/gpu.deploy.gpu-feature-discovery"],
    ]
    assert "release: Done" != w.settle(2)[-1]
    w.kube.delete(POD, "gfd", "gpu-operator", grace_s=0)
    assert "release: Done" == w.settle()[-1]
    after = w.node["metadata"]["labels"]
    assert {**gates, PLUGIN_GATE: "true"} == {k: v for k, v in after.items() if "deploy" in k}


def test_labels_promise_nothing_while_the_plugin_is_away(world: Make) -> None:
    """They go in the patch that sends it away, and those of others stay; who is waited for is said."""
    w = applied(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {"zone": "a"}}})
    assert promises(w.node["metadata"]["labels"])
    w.want(every("7g"))
    w.run_pass()
    w.grant()
    found: list[object] = []

    def look() -> None:
        labels = w.node["metadata"]["labels"]
        if labels[PLUGIN_GATE] == PAUSED_WORD and not found:
            found.extend([promises(labels), labels["zone"]])

    process = Process(look=look)
    waiting = Wait("PausingClients", SOON_S, "waiting for GPU clients to go: gpu-operator/plugin-2")
    assert waiting == w.run_pass(process).result
    assert [{}, "a"] == found


def test_plugin_without_a_gate(world: Make) -> None:
    """A plugin that no label pauses is kept away by a taint while slices change."""
    w = world(A100, cut=CUT, gated=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert ["pause_clients: PausingClients"] == w.settle(1)[:1]
    assert [PAUSE_TAINT] == [t["key"] for t in w.node["spec"]["taints"]]
    assert "release: Done" == w.settle()[-1]
    assert ("True", "Ready") == w.ready
    w.assert_clean()


def test_plugin_that_tolerates_every_taint(world: Make) -> None:
    """A plugin that cannot be kept away is started anew before and after."""
    w = world(A100, cut=CUT, gated=False, plugin_tolerates=True)
    first = w.plugin()
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    last = w.plugin()
    assert first is not None
    assert last is not None
    assert first["metadata"]["uid"] != last["metadata"]["uid"]
    assert "3" == w.labels["mig-1g.10gb"]
    assert not any(v["spec"].get("taints") for v in versions(w, 0, NODE))
    w.assert_clean()


@pytest.mark.parametrize(("tolerates", "step"), [(False, "pause_clients"), (True, "begin")])
def test_client_that_may_not_be_deleted_keeps_no_node_closed(world: Make, tolerates: bool, step: str) -> None:
    """Without the right to delete a client's pods the node is open again at once, and the message names the Role."""
    w = world(A100, cut=CUT, gated=False, plugin_tolerates=tolerates)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    before = w.shape()
    refused = NoDeletions(verbs=("delete",))
    assert f"{step}: ClientForbidden" in [said(w.run_pass(refused)) for _ in range(3)]
    assert ("Released", "Aborted", "ClientForbidden") == tuple(w.grant_status[k] for k in ("state", "result", "reason"))
    assert "deploy/components/device-plugin/clients.yaml" in w.grant_status["message"]
    rests = datetime.fromisoformat(w.grant_status["notBefore"]) - w.clock.now()
    assert timedelta(seconds=900) == rests
    assert before == w.shape()
    w.assert_clean()


def test_right_to_delete_clients_is_asked_for_before_anything(world: Make) -> None:
    """Without it nobody is evicted and nothing closed; it is asked for in every pass until it is there."""
    w = world(A100, cut=CUT, gated=False)
    w.want(TARGET)
    w.pod("goes", GOING)
    w.run_pass()
    w.grant()
    refused = [NoDeletions() for _ in range(3)]
    assert ["take_up: ClientForbidden"] * 3 == [said(w.run_pass(process)) for process in refused]
    assert [1, 2, 2] == [p.names.count("delete-dry-run Pod") for p in refused]
    assert "allow it by a Role as in deploy/components/device-plugin/clients.yaml" in ready_message(w)
    assert "ClientForbidden" == w.status["plan"]["reason"]
    assert "Held" != w.grant_status.get("state")
    w.assert_clean()
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == [name for name in w.deleted if name.startswith("default/")]


def test_right_to_delete_clients_is_asked_once_per_namespace(world: Make) -> None:
    """For each namespace with pods to delete one dry run; pods that the gate moves, or that are leaving, take none."""
    w = world(A100, cut=CUT)
    w.want(TARGET)
    for namespace, name in (("a", "one"), ("a", "two"), ("b", "leaves"), ("c", "three")):
        client(w, name, UNGATED, namespace)
    w.kube.delete(POD, "leaves", "b")
    w.run_pass()
    w.grant()
    process = Process()
    w.run_pass(process)
    assert 2 == process.names.count("delete-dry-run Pod")


def test_client_that_is_gone_before_it_is_asked_for(world: Make) -> None:
    """A pod that went between the read and the dry run is in nobody's way."""
    w = world(A100, cut=CUT, gated=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    plugin = w.plugin()
    assert plugin is not None

    def goes() -> None:
        if process.names[-1] == "delete-dry-run Pod":
            w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)

    process = Process()
    process.look = goes
    assert w.run_pass(process).step != "take_up"


def client(w: World, name: str, labels: Mapping[str, str], namespace: str, **spec: object) -> None:
    """A pod of a GPU client, made by a DaemonSet."""
    body = {
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": owned_by("DaemonSet")},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], **spec},
    }
    w.kube.create(POD, body, namespace)


def static(w: World, name: str, labels: Mapping[str, str], **spec: object) -> None:
    """The API's image of a static pod of a GPU client."""
    body = {
        "metadata": {"name": name, "labels": dict(labels), "annotations": {MIRROR: "f00"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], **spec},
    }
    w.kube.create(POD, body, "kube-system")


def test_label_of_the_operator_on_a_pod_that_is_not_its(world: Make) -> None:
    """Google's own DCGM carries app=nvidia-dcgm and asks for no deploy label: the taint keeps it away meanwhile."""
    w = granted(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {"nvidia.com/gpu.deploy.dcgm": "true"}}})
    operator = w.plays_daemon_set

    def both() -> None:
        operator()
        if not w.node["spec"].get("taints") and not w.kube.list(POD, "gmp-system").items:
            client(w, f"dcgm-{len(w.deleted)}", {"app": "nvidia-dcgm"}, "gmp-system")

    w.plays_daemon_set = both
    w.tick()
    w.pod("goes", GOING)
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes", "gmp-system/dcgm-0"] == sorted(w.deleted)
    w.tick()
    assert ["dcgm-2"] == [p["metadata"]["name"] for p in w.kube.list(POD, "gmp-system").items]
    w.assert_clean()


def test_pods_of_the_operator_are_not_deleted_beside_others(world: Make) -> None:
    """One that tolerates every taint and carries their labels is deleted for a restart; whose gate is false, stay."""
    w = granted(world)
    gate, labels = "nvidia.com/gpu.deploy.dcgm", {"app": "nvidia-dcgm"}
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {gate: "false"}}})
    client(w, "ours", labels, "gpu-operator", nodeSelector={gate: "true"})
    client(w, "theirs", labels, "gmp-system", tolerations=[{"operator": "Exists"}])
    assert "release: Done" == w.settle()[-1]
    assert ["gmp-system/theirs"] == w.deleted
    w.assert_clean()


def test_kubelet_that_still_offers_slices_of_a_plugin_kept_away_by_the_taint(world: Make) -> None:
    """Nothing is cut before the kubelet has noticed that the plugin is gone."""
    w = world(A100, cut=CUT, gated=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    advance(w, "pause_clients")
    offered = w.offered
    w.tick()
    w.offered = offered
    assert "the kubelet still offers nvidia.com/mig-1g.10gb" in getattr(w.run_pass().result, "message", "")
    w.offered = {}
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize("gate", [{}, {"nodeSelector": {PLUGIN_GATE: "true"}}], ids=["plain", "with the gate"])
def test_plugin_as_a_static_pod(world: Make, gate: dict[str, object]) -> None:
    """Nothing keeps away what the kubelet runs by itself: nobody is evicted to find out, and it is said what to do."""
    w = world(A100, cut=CUT, gated=False)
    plugin = w.plugin()
    assert plugin is not None
    w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
    w.plays_daemon_set = lambda: None
    labels = {"app": "nvidia-device-plugin-daemonset"} if gate else UNGATED
    static(w, "plugin-n1", labels, **gate)
    w.want(TARGET)
    w.pod("goes", GOING)
    w.run_pass()
    assert "ClientCannotBePaused" == w.status["plan"]["reason"]
    w.grant()
    assert ["take_up: ClientCannotBePaused"] * 3 == w.settle(3)
    who = "device-plugin" if gate else "device-plugin-manifest"
    assert f"kube-system/plugin-n1 ({who}) is a static pod of the kubelet" in ready_message(w)
    assert "remove its manifest from the node, and deploy it as a DaemonSet" in ready_message(w)
    assert [] == w.deleted
    w.assert_clean()


def test_static_client_that_minds_only_a_change_of_mode(world: Make) -> None:
    """A static pod that need not be away for slices is in nobody's way."""
    w = granted(world)
    with w.agent() as agent:
        monitor = GpuClient("monitor", {"app": "monitor"}, when="mode-change")
        clients = (*agent.settings.clients, monitor)
    static(w, "monitor", {"app": "monitor"})
    with w.agent(clients=clients) as agent:
        assert agent.run_pass().step == "pause_clients"


def only_the_plugin_knows(world: Make) -> World:
    """A node of which only the plugin's variable says that its strategy is single, to be divided into 1c."""
    w = world(A100, strategy=Strategy.SINGLE, plugin_says="single", gated=False, cut=(("3g", 0), ("3g", 4)))
    w.want(Layout((GpuEntry((SliceRequest(SliceName.parse("3g"), 2, compute=(1, 1, 1)),)),)))
    w.pod("goes", "nvidia.com/gpu")
    return w


def test_strategy_is_the_same_while_the_plugin_is_away(world: Make) -> None:
    """What nobody but the plugin says is noted when it is sent away, also for an agent that starts meanwhile."""
    w = only_the_plugin_knows(world)
    w.run_pass()
    w.grant()
    advance(w, "pause_clients")
    w.tick()
    assert w.plugin() is None
    w.agent_memory = Memory()
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == [name for name in w.deleted if name.startswith("default/")]
    assert ("True", "Ready") == w.ready


def test_strategy_is_the_same_while_the_plugin_starts_anew(world: Make) -> None:
    """Between two pods of the plugin the layout is not called one that it could not advertise."""
    w = only_the_plugin_knows(world)
    w.run_pass()
    before = w.status["plan"]
    plugin = w.plugin()
    assert plugin is not None
    w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
    w.run_pass()
    assert before == w.status["plan"]
    assert "reason" not in before
    w.plugin_variables = []
    w.tick()
    w.run_pass()
    assert "StrategyMismatch" == w.status["plan"]["reason"]
