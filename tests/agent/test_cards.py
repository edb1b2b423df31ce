"""Cards of all kinds: models, MIG modes, the plugin's strategies, slices that somebody moved."""

from __future__ import annotations

import pytest

from mig_manager.geometry.layout import MigMode
from mig_manager.kube.kinds import NODE
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.layouts import every, layout, on
from tests.agent.stories import CUT, TARGET, Make
from tests.agent.worlds import A30, A100, H100, SXM, T4


def test_single_strategy(world: Make) -> None:
    """Under strategy single the slices are advertised as GPUs, and the labels say which slice that is."""
    w = world(A100, A100, strategy=Strategy.SINGLE)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {"nvidia.com/mig.strategy": "single"}}})
    w.want(every("2g*3"))
    w.settle(20, control=True)
    assert ("6", "2g.20gb") == (w.labels["gpu"], w.labels["applied-slice"])
    assert {"nvidia.com/gpu": 6} == w.status["resources"]
    assert ("True", "Ready") == w.ready


def test_single_strategy_refuses_uneven_cards(world: Make) -> None:
    """What the plugin could not advertise is refused before any disruption."""
    w = world(A100, strategy=Strategy.SINGLE)
    w.want(TARGET, strategy="Single")
    assert "take_up: StrategyMismatch" == w.settle(1)[-1]
    assert "StrategyMismatch" == w.status["plan"]["reason"]


def test_mixed_models(world: Make) -> None:
    """Cards of several models are each cut their own way, and one without MIG is left alone."""
    w = world(A100, A30, T4)
    w.want(layout(on(0, "3g*2"), on(1, "1g*4")))
    w.settle(20, control=True)
    assert ["3g.40gb@0 3g.40gb@4", "1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3", "off"] == w.shape()
    assert ("4", "2", "mixed") == (w.labels["mig-1g.6gb"], w.labels["mig-3g.40gb"], w.labels["gpu-model"])
    assert ("True", "Ready") == w.ready


def test_node_without_gpu(world: Make) -> None:
    """A node with no card says that no GPU matched, and nothing else happens to it."""
    w = world(A100)
    w.machine.remove_card(0)
    w.want(TARGET)
    assert "take_up: NoGPUMatched" == w.settle(1)[-1]
    assert "false" == w.labels["mig.capable"]


@pytest.mark.parametrize("model", [H100, A100, SXM])
def test_mode_change(world: Make, model: str) -> None:
    """MIG is switched on, by a reset where that is needed, and pods that use whole cards go first."""
    w = world(model, model, mig=False)
    w.want(every("1g*3", "3g"))
    w.pod("whole", "nvidia.com/gpu")
    w.run_pass()
    assert "EvictPods" == w.status["plan"]["impact"]
    w.grant()
    w.settle()
    assert 2 == sum(s.startswith("1g.10gb@") for s in w.shape())
    assert ["default/whole"] == w.deleted
    assert ("True", "Ready") == w.ready


def test_mode_off(world: Make) -> None:
    """MIG is switched off, and the card is advertised as a whole."""
    w = world(H100, cut=CUT)
    w.want(every(mig=MigMode.DISABLED))
    w.settle(20, control=True)
    assert ["off"] == w.shape()
    assert ("True", "Ready") == w.ready
    assert "mig-1g.10gb" not in w.labels


def test_hopper_reboot(world: Make) -> None:
    """A Hopper card loses mode and slices at reboot; under the standing grant both come back."""
    w = world(H100, cut=CUT)
    w.want(TARGET)
    w.settle(20, control=True)
    w.pod("was", "nvidia.com/mig-3g.40gb")
    w.reboot()
    assert ["off"] == w.shape()
    assert "release: Done" == w.settle()[-1]
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert w.machine.read().boot_id == w.status["bootID"]
    w.assert_clean()


def test_equal_counts_at_other_places(world: Make) -> None:
    """Slices that somebody moved are as good as planned: nothing is done but waking the plugin up."""
    w = world(A100)
    w.want(every("1g*2"))
    w.settle(20, control=True)
    for start in [i.start for i in w.machine.card(0).instances]:
        w.machine.remove_instance(0, start=start)
    for start in (2, 3):
        w.machine.add_instance(0, "1g", start=start)
    ended = w.settle(10, seconds=30)
    assert "take_up: NotAdvertised" == ended[0]
    assert "take_up: Done" == ended[-1]
    assert ["1g.10gb@2 1g.10gb@3"] == w.shape()
    assert "2" == w.labels["mig-1g.10gb"]
