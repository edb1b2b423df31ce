"""What speaks against work on a node: before it is taken up, and while the node is held for it."""

from __future__ import annotations

from typing import Any

import pytest

from mig_manager.agent.names import CORDONED
from mig_manager.agent.planning import in_the_way
from mig_manager.agent.results import Refuse
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.state import Holder, SliceKey
from mig_manager.kube.kinds import MIG_NODE, POD
from mig_manager.planner.node import plan_node
from mig_manager.planner.strategy import Strategy
from tests.agent.layouts import layout, on
from tests.agent.moments import ready_message, said
from tests.agent.stories import CUT, Make, advance, applied, granted, guard
from tests.agent.worlds import A100, World, owned_by

FOREIGN = {"app": "nvidia-mig-manager"}


def bare_pod(w: World, name: str, device: str, resource: str = "nvidia.com/mig-1g.10gb") -> None:
    """A pod that uses a slice, and did not come by the kubelet's admission of this world."""
    body = {
        "metadata": {"name": name, "ownerReferences": owned_by("ReplicaSet")},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    }
    w.kube.create(POD, body, "default")
    w.hold(f"default/{name}", resource, device)


# -- before the work --


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        ("UnknownProfile: there is no profile nine; known are a, b", "UnknownProfile", "there is no profile nine"),
        ("", "UnknownProfile", "profile nine has no layout"),
        ("NoGPUMatched: no card here", "NoGPUMatched", "no card here"),
    ],
)
def test_wish_without_a_layout(world: Make, error: str, reason: str, text: str) -> None:
    """A profile that nobody knows is refused in the controller's own words, and the cards stay as they are."""
    w = applied(world)
    before = w.shape()
    desired: dict[str, Any] = {"profile": "nine", "layout": None, "hash": "none", "error": error or None}
    w.admin.patch(MIG_NODE, "n1", {"spec": {"desired": desired}})
    assert f"take_up: {reason}" == w.settle(1)[-1]
    assert text in ready_message(w)
    assert reason == w.status["plan"]["reason"]
    assert "p" == w.labels["applied-profile"]
    assert before == w.shape()
    w.assert_clean()


def test_granted_layout_that_does_not_fit_any_more(world: Make) -> None:
    """A card is taken out after the grant: the grant is refused with what is missing, and the node not touched."""
    w = world(A100, A100, cut=CUT)
    w.want(layout(on(0, "1g*3", "3g"), on(1, "7g")))
    w.run_pass()
    w.grant()
    w.machine.remove_card(1)
    ending = w.run_pass()
    assert "take_up: GpuMissing" == said(ending)
    assert isinstance(ending.result, Refuse)
    assert {} == w.grant_status
    w.assert_clean()


def test_foreign_manager(world: Make) -> None:
    """Where the GPU operator's own MIG manager runs we cut nothing, and say how to turn it off."""
    w = granted(world)
    body = {
        "metadata": {"name": "theirs", "labels": FOREIGN},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    }
    w.kube.create(POD, body, "gpu-operator")
    assert ["take_up: ForeignManager"] * 2 == w.settle(2)
    assert "gpu-operator/theirs manages MIG here; set nvidia.com/gpu.deploy.mig-manager=false" in ready_message(w)
    assert {} == w.grant_status
    assert CORDONED not in w.annotations
    w.kube.patch(POD, "theirs", {"status": {"phase": "Succeeded"}}, "gpu-operator", subresource="status")
    assert "release: Done" == w.settle()[-1]


def test_repair_is_not_begun_against_a_pod(world: Make) -> None:
    """A repair evicts nobody: with a pod on what would go, the node is not even cordoned, until the pod has ended."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    bare_pod(w, "busy", w.device_at(0, 0), "nvidia.com/mig-1g.10gb.me")
    assert ["take_up: InUse"] * 2 == w.settle(2)
    assert "it needs a new grant" in ready_message(w)
    assert CORDONED not in w.annotations
    assert [] == w.deleted
    w.end("busy")
    assert "release: Done" == w.settle()[-1]
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    w.assert_clean()


def test_new_grant_is_what_a_repair_against_a_pod_needs(world: Make) -> None:
    """Under a new id the same pod is evicted, and the slices come back."""
    w = applied(world)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    bare_pod(w, "busy", w.device_at(0, 0), "nvidia.com/mig-1g.10gb.me")
    assert "take_up: InUse" == w.settle(1)[-1]
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["default/busy"] == w.deleted


# -- while the node is held --


def test_card_that_is_taken_out_while_draining(world: Make) -> None:
    """The granted layout means other cards now: nobody else is evicted, the node is given back and the reason said."""
    w = world(A100, A100, cut=CUT)
    w.want(layout(on(0, "1g*3", "3g"), on(1, "7g")))
    w.run_pass()
    w.grant()
    guard(w)
    advance(w, "drain")
    w.machine.remove_card(1)
    assert "stand_down: GpuMissing" == w.settle(1)[-1]
    state = w.grant_status
    assert ("Released", "Aborted", "GpuMissing") == (state["state"], state["result"], state["reason"])
    assert [] == w.deleted
    w.assert_clean()


def test_node_that_comes_back_during_a_repair(world: Make) -> None:
    """A node that was taken without a slot, because a person had cordoned it, is let go when he opens it again."""
    w = granted(world, slot=False)
    w.cordon()
    guard(w)
    advance(w, "drain")
    assert "Repairing" == w.grant_status["state"]
    w.uncordon()
    assert "stand_down: NodeCameBack" == w.settle(1)[-1]
    state = w.grant_status
    assert ("Released", "Aborted", "NodeCameBack") == (state["state"], state["result"], state["reason"])
    assert [] == w.deleted
    w.assert_clean()


# -- compute instances inside a slice that stays --


def split(*widths: int) -> Layout:
    """One slice of three, with these compute instances in it."""
    return Layout((GpuEntry((SliceRequest(SliceName.parse("3g"), compute=widths or None),)),))


@pytest.mark.parametrize("pod", [True, False], ids=["pod", "process without a pod"])
def test_compute_instance_in_use_inside_a_slice_that_stays(world: Make, pod: bool) -> None:
    """Who uses a compute instance is in the way when it is to be divided, though the slice around it stays."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=0)
    w.want(split(1, 1, 1), strategy="None")
    if pod:
        bare_pod(w, "busy", w.device_at(0, 0), "nvidia.com/mig-3g.40gb")
    else:
        w.machine.hold(0, start=0, pid=4_190_000)
    w.run_pass()
    assert 1 == w.status["plan"]["keep"]
    w.grant(maxImpact="FreeSlices" if pod else "EvictPods")
    before = list(w.slices())
    assert f"take_up: {'ImpactNotAllowed' if pod else 'InUse'}" == w.settle(1)[-1]
    assert before == list(w.slices())
    w.assert_clean()


def test_compute_instances_are_divided_inside_a_slice_that_stays(world: Make) -> None:
    """The pod goes, the slice is kept, and only its compute instances are made anew."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=0)
    w.want(split(1, 1, 1), strategy="None")
    bare_pod(w, "busy", w.device_at(0, 0), "nvidia.com/mig-3g.40gb")
    w.run_pass()
    w.grant()
    births = {birth for *_, birth in w.slices()}
    w.settle()
    assert ["default/busy"] == w.deleted
    assert births == {birth for *_, birth in w.slices()}
    assert 3 == len(list(w.slices()))


def test_user_of_a_slice_of_which_nobody_knows_the_part(world: Make) -> None:
    """Who uses a slice without saying which compute instance may use the one that goes, so he is in the way."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=0)
    with w.agent() as agent, agent.ports.gpus.session() as session:
        cards = session.cards()
    holder = Holder("pid 1")
    holders = {SliceKey(cards[0].uuid, cards[0].instances[0].id): frozenset({holder})}
    assert (holder,) == in_the_way(plan_node(cards, holders, split(1, 1, 1), Strategy.NONE), holders)
    assert () == in_the_way(plan_node(cards, holders, split(3), Strategy.NONE), holders)
