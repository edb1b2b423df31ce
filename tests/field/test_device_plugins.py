"""Reports about device plugins, feature discovery, the kubelet and the exporters beside them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pynvml
import pytest
import yaml

from mig_manager.agent.names import PAUSED_WORD, PREFIX
from mig_manager.kube.kinds import NODE
from mig_manager.planner.node import plan_node
from mig_manager.planner.strategy import Strategy as Advertised
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.layouts import every, layout, on
from tests.agent.process import Process
from tests.agent.worlds import A30, A100, H100, PLUGIN_GATE, T4
from tests.field.stories import DONE, TARGET, Make, applied, births, granted
from tests.planner.machines import layout as wish
from tests.planner.machines import make_card

EXPORTER_GATE = "nvidia.com/gpu.deploy.dcgm-exporter"
AGENT = Path(__file__).parents[2] / "deploy/base/agent.yaml"


@pytest.mark.parametrize("model", [A30, H100, "H100-NVL", "H200"])
def test_gfd_7_labels_say_what_the_resource_is_called(world: Make, model: str) -> None:
    """Names are read from the card; nobody computes 3g.21gb where the resource is 3g.20gb."""
    w = world(model)
    w.want(every("1g*2", "2g"))
    assert "release: Done" == w.settle(20, control=True)[-1]
    offered = {name.removeprefix("nvidia.com/") for name, devices in w.offered.items() if devices}
    assert offered == {name for name in w.labels if name.startswith("mig-")}


def test_nos_25_a_mig_card_is_never_left_without_slices() -> None:
    """The plugin dies of it and takes the other cards along: refused under Single, and said what to do."""
    plan = plan_node([make_card()], {}, wish(), Advertised.SINGLE)
    assert not plan.feasible
    assert "EmptyMIGGPU" == getattr(plan.reason, "reason", "")


def test_dp_767_no_plugin_runs_while_a_card_is_empty(world: Make) -> None:
    """Between the last destroy and the first create the card has nothing on it: then no plugin is there to see it."""
    w = world(A100, cut=(("7g", 0),))
    w.want(every("1g*7"))
    w.run_pass()
    w.grant()
    alone: list[bool] = []

    def look() -> None:
        card = w.machine.card(0)
        if card.mig_current and not card.instances:
            alone.append(w.plugin() is None)

    w.process = Process(look=look)
    assert "release: Done" == w.settle()[-1]
    assert {True} == set(alone)


def test_dp_992_the_plugin_that_offers_new_slices_is_a_new_one(world: Make) -> None:
    """It looks at cards only at its start: another pod, ready, and every slice offered, before anybody is let in."""
    w = granted(world)
    before = w.plugin()
    assert "release: Done" == w.settle()[-1]
    after = w.plugin()
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1} == w.status["resources"]


def test_kubernetes_53395_a_resource_that_stays_at_zero_is_ignored(world: Make) -> None:
    """The kubelet leaves mig-2g.20gb at 0 for ever; the node is Ready all the same."""
    w = applied(world)
    assert "0" == w.node["status"]["allocatable"]["nvidia.com/mig-2g.20gb"]
    w.run_pass()
    assert ("True", "Ready") == w.ready


def test_is_96_no_pod_before_the_kubelet_shows_the_final_count(world: Make) -> None:
    """In every version of the Node that is open after the cut, allocatable is the plan."""
    w = granted(world)
    w.settle()
    versions = [v.body for v in w.store.history(NODE, "n1") if v.body is not None]
    cordoned = [bool(body["spec"].get("unschedulable")) for body in versions]
    opened = next(n for n in range(1, len(versions)) if cordoned[n - 1] and not cordoned[n])
    for body in versions[opened:]:
        offered = {k: v for k, v in body["status"]["allocatable"].items() if v != "0"}
        assert {"nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-3g.40gb": "1"} == offered


def test_is_336_a_pod_from_before_the_reboot_does_not_get_another_slice(world: Make) -> None:
    """After a reboot the slices are there again before the node is open, and the plugin looks at them afterwards."""
    w = world(H100, cut=(("1g", 0), ("2g", 2), ("3g", 4)))
    w.want(TARGET)
    w.settle(20, control=True)
    w.pod("was", "nvidia.com/mig-3g.40gb")
    w.reboot()
    w.process = Process(look=w.check)
    assert "release: Done" == w.settle()[-1]
    assert [DONE] == w.shape()
    w.assert_clean()


def test_is_452_a_node_without_mig_says_so(world: Make) -> None:
    """A card that knows no MIG blocks its node alone, with a word for it."""
    w = world(T4)
    w.want(TARGET)
    w.settle(3)
    assert "False" == w.ready[0]
    assert w.ready[1] in ("NoGPUMatched", "ProfileNotOnGPU")
    assert "false" == w.labels["mig.capable"]


def test_dp_1682_labels_are_under_a_prefix_of_their_own(world: Make) -> None:
    """Whatever others call their labels, none of theirs is written or removed."""
    w = granted(world)
    before = {k: v for k, v in w.node["metadata"]["labels"].items() if not k.startswith(PREFIX)}
    w.settle()
    after = w.node["metadata"]["labels"]
    assert before == {k: v for k, v in after.items() if not k.startswith(PREFIX)}
    assert "3" == after[f"{PREFIX}mig-1g.10gb"]


def test_dcgm_exporter_272_the_exporter_is_started_anew(world: Make) -> None:
    """It maps slices at its start only: it is away while they change, and back afterwards."""
    w = granted(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {EXPORTER_GATE: "true"}}})
    seen: set[str] = set()

    def look() -> None:
        if w.process.names[-1] == "nvmlGpuInstanceDestroy":
            seen.add(w.node["metadata"]["labels"][EXPORTER_GATE])

    w.process = Process(look=look)
    assert "release: Done" == w.settle()[-1]
    assert {PAUSED_WORD} == seen
    assert "true" == w.node["metadata"]["labels"][EXPORTER_GATE]


def test_rocm_382_the_agent_runs_on_every_node() -> None:
    """A taint that keeps the agent away would keep the node in whatever state it is in."""
    bodies = list(yaml.safe_load_all(AGENT.read_text(encoding="utf-8")))
    (spec,) = (b["spec"]["template"]["spec"] for b in bodies if b["kind"] == "DaemonSet")
    assert {"operator": "Exists"} in spec["tolerations"]


def test_rocm_421_a_client_that_holds_the_card_is_away_before_holders_are_counted(world: Make) -> None:
    """The exporter has the device open: it is no obstacle, because it goes first."""
    w = granted(world)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {EXPORTER_GATE: "true"}}})
    moments: list[str] = []

    def look() -> None:
        moments.append("paused" if w.node["metadata"]["labels"][EXPORTER_GATE] == PAUSED_WORD else "there")
        if w.process.names[-1] == "journal begin":
            assert "paused" == moments[-1]

    w.process = Process(look=look)
    assert "release: Done" == w.settle()[-1]
    assert "there" == moments[-1]


def test_puppet_magic_castle_276_nothing_to_advertise_is_no_reason_to_wait(world: Make) -> None:
    """Where no plugin runs (Slurm nodes) slices are cut and the node is let in without waiting for one."""
    w = world(A100, strategy=Strategy.MIXED)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {PLUGIN_GATE: "false"}}})
    w.tick()
    w.want(TARGET, strategy="None")
    w.run_pass()
    w.grant(devicePluginStrategy="None")
    assert "release: Done" == w.settle()[-1]
    assert {"1g.10gb": 3, "3g.40gb": 1} == Counter(name.partition("@")[0] for name in w.shape()[0].split())


def test_dra_883_a_start_toggles_no_mode(world: Make) -> None:
    """An agent that starts on a node that nobody has a wish for leaves modes and slices as they are."""
    w = world(A100, A30, cut=(("7g", 0),))
    before = [births(w, gpu) for gpu in range(2)]
    for _ in range(3):
        w.process = Process()
        w.run_pass()
        assert not [name for name in w.process.names if name.startswith("nvml")]
    assert before == [births(w, gpu) for gpu in range(2)]


def test_dra_473_seven_slices_that_are_there_already_are_taken_over(world: Make) -> None:
    """Somebody cut the card as it is wanted: not one of them is made again."""
    w = world(A100, cut=tuple(("1g", start) for start in range(7)))
    before = births(w, 0)
    w.want(every("1g*7"))
    w.settle(20, control=True)
    assert ("True", "Ready") == w.ready
    assert before == births(w, 0)


def test_dra_1055_slices_that_no_entry_mentions_stay(world: Make) -> None:
    """A card that the layout says nothing about is nobody's to clean up."""
    w = world(A100, A30, cut=(("7g", 0),))
    w.machine.add_instance(1, "2g", start=0)
    w.judge.stand_by(w.machine.read(), w.machine.card(1).uuid)
    w.want(layout(on(0, "1g*7")))
    w.process = Process(look=w.check)
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert "2g.12gb@0" == w.shape()[1]


def test_dra_1480_a_whole_card_gets_the_compute_instance_that_works(world: Make) -> None:
    """Two compute profiles of a 7g have one name; the plain one is chosen, by id."""
    w = world(A100)
    w.want(every("7g"))
    assert "release: Done" == w.settle(20, control=True)[-1]
    (instance,) = w.machine.card(0).instances
    assert [(4, 7)] == [(c.profile_id, c.size) for c in instance.compute]


def test_ha_1014_a_card_is_known_by_its_id_whatever_it_is_called(world: Make) -> None:
    """An H100 NVL is cut by its own table, and labelled by one name."""
    w = world("H100-NVL")
    w.want(every("1g+me", "1g*6"))
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert ("1", "6", "H100-NVL") == (w.labels["mig-1g.12gb.me"], w.labels["mig-1g.12gb"], w.labels["gpu-model"])


def test_ha_1088_nvml_is_open_only_while_it_is_used(world: Make) -> None:
    """Between passes the agent holds no handle: its own look never keeps a card busy."""
    w = applied(world)
    with w.agent() as agent:
        agent.run_pass()
        with pytest.raises(pynvml.NVMLError):
            pynvml.nvmlDeviceGetCount()


def test_dcgm_276_a_ghost_that_nobody_lists_costs_neither_slice_nor_node(world: Make) -> None:
    """The driver says in use and names nobody: tried a few times, then as before, and said."""
    w = granted(world)
    w.machine.hold(0, start=2, visible=False)
    before = w.shape()
    w.settle(12)
    assert before == w.shape()
    assert "Applied" != w.grant_status.get("result")
    assert "in use" in json.dumps(w.status).lower()
    w.assert_clean()


def test_a_pypi_tool_that_wipes_every_card(world: Make) -> None:
    """Every destructive call names its card: the neighbours of the one that is changed are the very same."""
    w = world(A100, A100, A30, cut=(("7g", 0),))
    w.machine.add_instance(1, "3g", start=0)
    w.machine.add_instance(2, "1g", start=0)
    w.judge.stand_by(w.machine.read(), *(w.machine.card(gpu).uuid for gpu in (1, 2)))
    w.want(layout(on(0, "1g*7")))
    w.process = Process(look=w.check)
    assert "release: Done" == w.settle(20, control=True)[-1]
    assert "1g.10gb" in w.shape()[0]


def test_go_nvml_65_a_compute_instance_that_is_not_supported(world: Make) -> None:
    """Refused by the driver in the middle: what was made goes again, and the former slices are back."""
    w = granted(world)
    name = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
    w.machine.inject(name, code=3, calls=[1])
    before = w.shape()
    w.settle(6)
    assert "RolledBack" == w.grant_status["result"]
    assert before == w.shape()


def test_cuda_python_2862_lists_are_asked_with_room_for_all(world: Make) -> None:
    """Seven instances of one kind are seen, all of them."""
    w = world(A100, cut=tuple(("1g", start) for start in range(7)))
    w.want(every("1g*7"))
    w.run_pass()
    assert [[f"1g.10gb@{n}" for n in range(7)]] == [gpu["slices"] for gpu in w.status["gpus"]]
