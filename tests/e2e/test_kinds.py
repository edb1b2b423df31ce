"""Nodes of every kind: cards of several models, cards without MIG, no card at all, strategy single."""

from __future__ import annotations

from mig_manager.sim.node.plugin_devices import Strategy
from tests.e2e.layouts import NARROW, PROFILES, SEVEN, WIDE
from tests.e2e.world import World


def test_mixed_models_and_a_card_without_mig(world: World) -> None:
    """Each card gets what the profile means on it; a card that knows no MIG is offered as it is."""
    host = world.host("A100-SXM4-80GB", "A30", "T4")
    world.config("all-balanced")
    layout = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2, "2g.12gb": 1, "1g.6gb": 2}
    world.finished(host, layout, "all-balanced", gpu=1)
    assert "mixed" == world.labels(host)["gpu-model"]


def test_node_without_a_gpu(world: World) -> None:
    """It blocks itself alone, and says why."""
    bare = world.host()
    host = world.host("A30")
    world.config("all-balanced")
    world.finished(host, {"2g.12gb": 1, "1g.6gb": 2}, "all-balanced")
    world.until("the node to be blocked", lambda: world.reason(bare) == "NoGPUMatched")
    world.until("the pool to say so", lambda: world.pool_reason() == "NoGPUMatched")
    assert not world.node(bare)["spec"].get("unschedulable")


def test_strategy_single(world: World) -> None:
    """All slices are one resource; the labels say how many, and of what kind."""
    host = world.host("A100-SXM4-80GB*2", slices=[WIDE, WIDE], strategy=Strategy.SINGLE)
    world.config("all-1g.10gb")

    def finished() -> bool:
        labels = world.labels(host)
        said = (labels.get("gpu"), labels.get("applied-slice"), labels.get("state"))
        return said == ("14", "1g.10gb", "ready") and world.offered(host) == {"gpu": 14}

    world.until("14 GPUs", finished)
    assert {"1g.10gb": 14} == host.counts()
    world.ready()


def test_pod_with_two_slices_of_which_one_goes(world: World) -> None:
    """It is evicted as the one pod that it is; a pod beside it, whose slice stays, never notices."""
    host = world.host("A100-SXM4-80GB", slices=[NARROW])
    world.config("narrow", profiles=PROFILES)
    world.finished(host, NARROW, "narrow")
    pair = world.pod("pair", host, "mig-3g.40gb", "mig-1g.10gb")
    beside = world.pod("beside", host, "mig-1g.10gb")
    world.running(pair, beside)
    world.observer.evicted = {pair}

    world.edit(profile="all-1g.10gb")
    world.finished(host, SEVEN, "all-1g.10gb")
    assert ["Gone", "Running"] == [world.phase(pod) for pod in (pair, beside)]
