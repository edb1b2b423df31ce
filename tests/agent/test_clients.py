"""GPU clients are sent away and come back as they were."""

from __future__ import annotations

import pytest

from mig_manager.agent.labels import promises
from mig_manager.agent.names import PAUSE_TAINT, PAUSED_WORD
from mig_manager.agent.results import SOON_S, Wait
from mig_manager.kube.kinds import NODE, POD
from tests.agent.layouts import every
from tests.agent.moments import said
from tests.agent.process import NoDeletions, Process
from tests.agent.stories import CUT, TARGET, Make, advance, applied, granted, versions
from tests.agent.worlds import A100, PLUGIN_GATE


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
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
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
    assert f"{step}: ClientForbidden" in [said(w.run_pass(NoDeletions())) for _ in range(3)]
    assert ("Released", "Aborted", "ClientForbidden") == tuple(w.grant_status[k] for k in ("state", "result", "reason"))
    assert "deploy/components/device-plugin/clients.yaml" in w.grant_status["message"]
    assert before == w.shape()
    w.assert_clean()
