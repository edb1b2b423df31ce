"""Reports about NVIDIA/mig-parted, and those of its users that are about the same program."""

from __future__ import annotations

import pytest

from mig_manager.api.migparted import layouts_from_mig_parted
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import MigMode
from mig_manager.kube.kinds import NODE, POD
from mig_manager.planner.node import plan_node
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every, layout, on
from tests.agent.process import Process
from tests.agent.worlds import A30, A100, PLUGIN_GATE, SXM
from tests.field.stories import DONE, Make, births, granted, message
from tests.planner.machines import layout as wish
from tests.planner.machines import make_card

EXPORTER_GATE = "nvidia.com/gpu.deploy.dcgm-exporter"


def test_mp_157_profile_ids_are_those_of_each_card(world: Make) -> None:
    """A 1g is profile 14 on an A30 and 19 on an A100: each card is asked for its own."""
    w = world(A100, A30)
    w.want(layout(on(0, "1g"), on(1, "1g*4")))
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert ["1g.10gb@6", "1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3"] == w.shape()
    assert [{19}, {14}] == [{i.profile_id for i in card.instances} for card in w.machine.read().cards]


def test_mp_100_whether_4g_and_3g_fit_is_answered_with_their_places() -> None:
    """A plan needs no machine: 4g.20gb and 3g.20gb fit on an A100 with 40 GB, at 0 and at 4."""
    plan = plan_node([make_card("A100-PCIE-40GB")], {}, wish("4g.20gb", "3g.20gb"))
    assert plan.feasible
    assert [0, 4] == sorted(s.placement.start for s in plan.cards[0].difference.create)


def test_mp_485_client_shutdown_timeout_restores_labels(world: Make) -> None:
    """A client that does not go in time: labels as before, the node open, and tried again by itself."""
    w = granted(world, drain={"timeoutSeconds": 60, "onTimeout": "Abort"})
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {EXPORTER_GATE: "true"}}})
    labels = {"app": "nvidia-dcgm-exporter"}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}], "nodeSelector": {EXPORTER_GATE: "true"}}
    w.kube.create(POD, {"metadata": {"name": "stuck", "labels": labels}, "spec": spec}, "gpu-operator")
    ended = w.settle(80, seconds=5)
    assert "pause_clients: PausingClients" in ended
    assert "stand_down: DrainTimeout" in ended
    assert ("true", "true") == tuple(w.node["metadata"]["labels"][gate] for gate in (PLUGIN_GATE, EXPORTER_GATE))
    assert "stuck" in w.grant_status["message"]
    w.assert_clean()

    w.kube.delete(POD, "stuck", "gpu-operator", grace_s=0)
    w.clock.sleep(60)
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert [DONE] == w.shape()


def test_mp_368_kubelet_that_is_still_joining_is_waited_for(world: Make) -> None:
    """While the Node is not ready and its kubelet silent nothing is touched; nobody restarts a kubelet."""
    w = granted(world)
    w.set_ready(ready=False)
    w.kubelet_down = True
    before = births(w, 0)
    assert ["take_up: KubeletUnreachable"] * 3 == w.settle(3)
    assert before == births(w, 0)
    w.set_ready(ready=True)
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]


def test_mp_357_layout_for_one_gpu_leaves_the_others_alone(world: Make) -> None:
    """GPU 1 is cut; GPU 0, busy, stays the very same."""
    w = world(SXM, SXM, cut=(("7g", 0),))
    w.pod("job", "nvidia.com/mig-7g.80gb")
    w.judge.stand_by(w.machine.read(), w.machine.card(0).uuid)
    w.want(layout(on(1, "3g")))
    w.process = Process(look=w.check)
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert ["7g.80gb@0", "3g.40gb@4"] == w.shape()
    assert "default/job" in w.running


def test_mp_181_who_keeps_a_card_from_its_reset_is_named(world: Make) -> None:
    """A display server on a card whose mode is to change: named, and the node is not even cordoned."""
    w = world(SXM, mig=False)
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.grant()
    w.machine.hold(0, name="Xorg", kind="graphics", pid=4_190_000)
    assert "take_up: InUse" == w.settle(2)[-1]
    assert "4190000" in message(w)
    w.assert_clean()


def test_mp_9_reset_that_changes_nothing_is_no_success(world: Make) -> None:
    """In a virtual machine a reset can say yes and do nothing: the mode is read back, and nothing is called applied."""
    w = world(SXM, mig=False)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    w.reset_lies = True
    w.want(every("1g*3", "3g"))
    w.run_pass()
    w.grant()
    w.settle(10)
    assert "Applied" != w.grant_status.get("result")
    assert "True" != w.ready[0]
    assert ["off"] == w.shape()
    w.assert_clean()


def test_mp_101_names_of_an_h100_nvl_are_the_cards_own(world: Make) -> None:
    """A portable shape resolves to what 94 GB give, and labels say what the kubelet offers."""
    w = world("H100-NVL")
    w.want(every("1g*2", "2g", "3g"))
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert {"nvidia.com/mig-1g.12gb": 2, "nvidia.com/mig-2g.24gb": 1, "nvidia.com/mig-3g.47gb": 1} == w.status[
        "resources"
    ]
    assert ("2", "1", "1") == tuple(w.labels[f"mig-{name}"] for name in ("1g.12gb", "2g.24gb", "3g.47gb"))


@pytest.mark.parametrize(("model", "name"), [("GB200-186GB", "1g.23gb"), ("GB200-189GB", "1g.24gb")])
def test_mp_227_a_shape_needs_no_name_of_this_year(model: str, name: str) -> None:
    """``1g`` is what the card calls it; a full name of another card is refused, and says what there is."""
    plan = plan_node([make_card(model)], {}, wish("1g"))
    assert plan.feasible
    (made,) = plan.cards[0].difference.create
    assert name == str(plan.cards[0].card.profiles[made.profile_id])
    other = plan_node([make_card(model)], {}, wish("1g.99gb"))
    assert "no profile 1g.99gb" in str(other.reason)


def test_mp_44_a_number_where_a_list_is_wanted_is_said_clearly() -> None:
    """``devices: 7`` is refused with the place and what to write."""
    spec = {"devices": 7, "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}
    with pytest.raises(LayoutError) as caught:
        layouts_from_mig_parted({"version": "v1", "mig-configs": {"mine": [spec]}})
    assert "mine" in str(caught.value)
    assert "devices" in str(caught.value)


def test_mp_19_a_change_of_slices_switches_no_mode(world: Make) -> None:
    """Where MIG is on already neither mode nor reset is asked for."""
    w = granted(world)
    w.settle()
    assert [DONE] == w.shape()
    assert "nvmlDeviceSetMigMode" not in w.process.names


def test_mp_19_disabling_with_slices_present_destroys_them_first(world: Make) -> None:
    """The driver refuses to disable a cut card; slices go, then the mode."""
    w = world(SXM, cut=(("3g", 0),))
    w.want(every(mig=MigMode.DISABLED))
    assert "release: Done" == w.settle(20, control=True)[-1]
    names = w.process.names
    assert names.index("nvmlGpuInstanceDestroy") < names.index("nvmlDeviceSetMigMode")
    assert ["off"] == w.shape()


def test_mp_14_a_card_that_refuses_is_left_as_it_was(world: Make) -> None:
    """Virtual functions, or whatever else keeps a card from being cut: all is as before, and its words are told."""
    w = granted(world)
    w.machine.inject("nvmlDeviceCreateGpuInstanceWithPlacement", code=NvmlCode.NOT_SUPPORTED, calls=[1])
    before = w.shape()
    w.settle(6)
    assert ("Released", "RolledBack") == (w.grant_status["state"], w.grant_status["result"])
    assert "not supported" in w.grant_status["message"].lower()
    assert before == w.shape()
    w.assert_clean()


@pytest.mark.parametrize("function", ["nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy"])
def test_agentbaker_2508_success_is_what_is_read_back(world: Make, function: str) -> None:
    """A call that says yes and does nothing is found out: the cards are read, and exit codes believed nowhere."""
    w = granted(world)
    w.machine.inject(function, silent=True, calls=[1])
    before = w.shape()
    w.settle(8)
    assert "Applied" != w.grant_status.get("result")
    assert before == w.shape()
    w.clock.sleep(60)
    assert "release: Done" == w.settle(20, control=True)[-1]
