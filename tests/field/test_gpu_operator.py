"""Reports about NVIDIA/gpu-operator that concern a node and its cards."""

from __future__ import annotations

from typing import Any

import pytest

from mig_manager.agent.clients import GpuClient
from mig_manager.agent.names import PAUSED_WORD, STARTUP_TAINT
from mig_manager.geometry.layout import MigMode
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.layouts import every
from tests.agent.process import KilledError, Process
from tests.agent.stories import guard
from tests.agent.worlds import A100, CLIENTS, H100, PLUGIN_GATE, SXM, T4
from tests.field.stories import CUT, DONE, TARGET, Make, applied, births, granted, message


def test_go_262_cordon_and_drain_are_part_of_the_change(world: Make) -> None:
    """Who is in the way is evicted behind a cordon, which is lifted at the end; nobody has to do it by hand."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    cordoned = []
    w.process = Process(look=lambda: cordoned.append(bool(w.node["spec"].get("unschedulable"))))
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == w.deleted
    assert True in cordoned
    w.assert_clean()


def test_go_1703_nothing_begins_without_a_driver(world: Make) -> None:
    """While a driver is being exchanged no client is sent away; when it is there, the work is done without a nudge."""
    w = granted(world)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.LIB_RM_VERSION_MISMATCH)
    before = w.node["metadata"]["labels"]
    w.settle(5)
    assert "DriverNotReady" == w.ready[1]
    assert before[PLUGIN_GATE] == w.node["metadata"]["labels"][PLUGIN_GATE]
    w.assert_clean()
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_go_2415_a_node_that_is_not_ready_keeps_its_kubelet(world: Make) -> None:
    """The agent asks the kubelet and does nothing else to it: whatever it is about to do waits for an answer."""
    w = granted(world)
    w.kubelet_down = True
    w.settle(3)
    assert "KubeletUnreachable" == w.ready[1]
    assert {} == w.grant_status
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]


def test_go_1310_a_restarted_agent_does_nothing_again(world: Make) -> None:
    """54 restarts later every slice and every object is the one that it was."""
    w = applied(world)
    w.run_pass()
    w.tick()
    before, version = births(w, 0), w.store.resource_version
    for _ in range(54):
        w.agent_memory.since.clear()
        assert "Done" == type(w.run_pass(Process()).result).__name__
    assert before == births(w, 0)
    assert version == w.store.resource_version


def test_go_2509_who_blocks_is_said_and_since_when(world: Make) -> None:
    """A drain that a budget blocks names pod and budget on the MIGNode, and how long the node is held."""
    w = granted(world)
    guard(w)
    w.settle(3)
    assert "EvictionBlocked" == w.ready[1]
    assert "goes" in message(w)
    assert "pdb" in message(w)
    assert w.grant_status["since"]


def test_go_118_a_mode_that_stays_pending_is_shown(world: Make) -> None:
    """A hidden client keeps the card from its reset: never called applied, and current and pending are both told."""
    w = world(SXM, mig=False)
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.machine.hold(0, name="nvidia-persistenced", visible=False)
    w.machine.set_mig(0, enabled=True)
    w.run_pass()
    assert ("Disabled", "Enabled") == (w.status["gpus"][0]["mig"], w.status["gpus"][0]["pendingMIG"])
    w.grant()
    w.settle(10)
    assert "Applied" != w.grant_status.get("result")
    assert "True" != w.ready[0]
    w.assert_clean()


def test_go_1606_a_card_that_only_a_reboot_changes_is_never_called_done(world: Make) -> None:
    """An Ampere card in a virtual machine is not reset: the plan says so, and the node is left as it is."""
    w = world(SXM, mig=False)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    w.want(every("1g*3", "3g"))
    w.settle(20, control=True)
    assert ("False", "ImpactNotAllowed") == w.ready
    assert "RebootNode" == w.status["plan"]["impact"]
    assert "Applied" != w.grant_status.get("result")
    w.assert_clean()


def test_go_668_the_plugin_stays_away_until_all_is_disabled(world: Make) -> None:
    """While modes change no device plugin looks at the cards; then it sees whole ones."""
    w = world(H100, cut=CUT)
    w.want(every(mig=MigMode.DISABLED))
    seen: list[bool] = []

    def look() -> None:
        if w.process.names[-1].startswith("nvml"):
            seen.append(w.plugin() is None)

    w.process = Process(look=look)
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert {True} == set(seen)
    assert ["nvidia.com/gpu"] == [name for name, devices in w.offered.items() if devices]


def test_go_2600_hopper_comes_back_from_a_reboot(world: Make) -> None:
    """Mode and slices are lost at a reboot, and are there again without anybody's wish."""
    w = world(H100, cut=CUT)
    w.want(TARGET)
    w.settle(20, control=True)
    w.reboot()
    assert ["off"] == w.shape()
    assert "release: Done" == w.settle()[-1]
    assert [DONE] == w.shape()


def test_go_1607_single_strategy_beside_cards_without_mig(world: Make) -> None:
    """What one strategy cannot advertise on such a node is not called a success."""
    w = world(A100, T4, strategy=Strategy.SINGLE, cut=(("3g", 0), ("3g", 4)))
    w.want(every("7g"), strategy="Single")
    w.settle(20, control=True, seconds=30)
    assert ("False", "NotAdvertised") == w.ready
    assert ("True", "NotAdvertised") == w.condition("Degraded")
    assert "degraded" == w.labels["state"]
    w.assert_clean()


def test_go_1704_custom_clients_are_sent_away_and_back(world: Make) -> None:
    """A client that only this administrator has is found by his labels, and is not there while slices change."""
    w = granted(world)
    custom = GpuClient("custom", {"app": "our-exporter"})
    spec: dict[str, Any] = {"nodeName": "n1", "containers": [{"name": "c"}], "tolerations": [{"operator": "Exists"}]}
    body = {"metadata": {"name": "ours", "labels": {"app": "our-exporter"}}, "spec": spec}
    w.kube.create(POD, body, "monitoring")
    gone: list[bool] = []

    def look() -> None:
        if w.process.names[-1] == "nvmlGpuInstanceDestroy":
            leaving = [p for p in w.kube.list(POD, "monitoring").items if "deletionTimestamp" not in p["metadata"]]
            gone.append(not leaving)

    w.process = Process(look=look)
    for _ in range(20):
        with w.agent(clients=(*CLIENTS, custom)) as agent:
            if type(agent.run_pass().result).__name__ == "Done":
                break
        w.tick()
    assert [DONE] == w.shape()
    assert [True] == gone


def test_go_2670_startup_taint_stays_until_the_slices_are_offered(world: Make) -> None:
    """A node that joins is closed until the kubelet offers the layout: no pod gets a whole card."""
    w = world(A100, mig=False, plugin_tolerates=True)
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    w.want(TARGET)
    assert "release: Done" == w.settle(20, control=True)[-1]
    for version in w.store.history(NODE, "n1"):
        node = version.body or {}
        if not node.get("spec", {}).get("taints"):
            offered = {k: v for k, v in (node.get("status", {}).get("allocatable") or {}).items() if v != "0"}
            assert offered in (
                {},
                {"nvidia.com/gpu": "1"},
                {"nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-3g.40gb": "1"},
            )
    assert [] == w.node["spec"].get("taints", [])


@pytest.mark.parametrize("value", ["false", "", None])
def test_go_701_deploy_labels_follow_what_is_there(world: Make, value: str | None) -> None:
    """A gate that somebody switched off is not switched on by a change; one that was absent is absent again."""
    gate = "nvidia.com/gpu.deploy.dcgm-exporter"
    w = granted(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {gate: value}}})
    assert "release: Done" == w.settle()[-1]
    assert value == w.node["metadata"]["labels"].get(gate)


def test_go_287_a_pause_without_its_record_is_not_for_ever(world: Make) -> None:
    """Our word in a deploy label is ours even where the annotation was lost: the client comes back."""
    w = applied(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: PAUSED_WORD}}})
    w.settle(5)
    assert "true" == w.node["metadata"]["labels"][PLUGIN_GATE]


def test_go_891_an_edit_in_mid_flight_counts(world: Make) -> None:
    """What is wanted by now is what the node ends with, whatever was on its way."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    w.run_pass()
    w.want(every("7g"), profile="whole")
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["7g.80gb@0"] == w.shape()
    assert "whole" == w.labels["applied-profile"]


def test_go_2570_who_asked_for_nothing_is_found_by_its_process(world: Make) -> None:
    """A pod that got the card by its runtime class holds no device: its process is named, and nothing is destroyed."""
    w = granted(world)
    pid = 4_190_000
    w.machine.hold(0, start=2, pid=pid)
    assert "take_up: InUse" == w.settle(3)[-1]
    assert str(pid) in message(w)
    assert {} == w.grant_status
    w.assert_clean()


def test_go_1309_a_card_that_is_missing_is_not_made_up_for(world: Make) -> None:
    """When GPU 0 vanishes the other becomes GPU 0: it keeps its slices, and the node says what is missing."""
    w = applied(world, A100, A100)
    kept = births(w, 1)
    w.machine.remove_card(0)
    w.settle(5, seconds=30)
    assert kept == births(w, 0)
    assert ("True", "GpuMissing") == w.condition("Degraded")
    assert "True" != w.ready[0]


def test_go_1845_a_kill_between_mode_and_slices(world: Make) -> None:
    """An agent that dies with the mode switched and nothing cut yet is followed by one that goes on."""
    w = world(SXM, mig=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    process = Process()

    def look() -> None:
        if process.names[-1] == "nvmlDeviceSetMigMode done":
            raise KilledError

    process.look = look
    w.process = process
    with pytest.raises(KilledError):
        w.settle()
    w.process = Process()
    assert "release: Done" == w.settle()[-1]
    assert "Released" == w.admin.get(MIG_NODE, "n1")["status"]["grant"]["state"]
