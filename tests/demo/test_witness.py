"""The demo's own checks fail when what they watch over is not so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mig_manager.sim.demo import scene
from mig_manager.sim.demo.errors import DemoError
from mig_manager.sim.demo.story import BUDGET, MAX_OUT, REPLICAS, SERVING
from mig_manager.sim.demo.view import NodeView, PodView, View
from mig_manager.sim.demo.witness import EVICTED, Slice, Witness, slices
from mig_manager.sim.model.machine import Machine

POD = "work/training-1"


@pytest.fixture
def machine() -> Machine:
    """A card with a slice that a pod uses, and one that nobody uses."""
    machine = Machine.create(None, ["A100-SXM4-80GB"], mig=True)
    machine.add_instance(0, "3g.40gb", start=4)
    machine.add_instance(0, "1g.10gb", start=0)
    machine.hold(0, start=4, name=POD)
    return machine


def now(machine: Machine) -> Mapping[Slice, frozenset[str]]:
    return slices({"n1": machine})


def replaced(machine: Machine) -> None:
    """The used slice is destroyed and made again, its user comes back."""
    machine.free(0, start=4)
    machine.remove_instance(0, start=4)
    machine.add_instance(0, "3g.40gb", start=4)
    machine.hold(0, start=4, name=POD)


def moment(*pods: PodView, nodes: tuple[NodeView, ...] = ()) -> View:
    return View({n.name: n for n in nodes}, {p.name: p for p in pods}, 0)


def pod(name: str, *, ready: bool = True, leaving: bool = False, disruption: str = "") -> PodView:
    return PodView(f"work/{name}", SERVING, "n1", ready, leaving, disruption)


def test_slice_in_use_that_stays_is_kept(machine: Machine) -> None:
    """What happens to slices that nobody uses is of no concern."""
    witness = Witness(now(machine), {})
    machine.remove_instance(0, start=0)
    machine.add_instance(0, "2g.20gb", start=0)
    assert ["3g.40gb"] == [one.name for one in witness.kept(now(machine))]


def test_slice_that_was_made_anew_is_not_kept(machine: Machine) -> None:
    """The same UUID at the same place does not make it the same slice."""
    witness = Witness(now(machine), {})
    replaced(machine)
    with pytest.raises(DemoError, match=f"3g.40gb at 4 on GPU-.* of n1 was in use by {POD} and is gone"):
        witness.kept(now(machine))


def test_slice_of_an_evicted_pod_may_go(machine: Machine) -> None:
    """Only the named pod's slice may go, and it does not count as kept."""
    witness = Witness(now(machine), {})
    replaced(machine)
    assert [] == witness.kept(now(machine), [POD])


@pytest.mark.parametrize(("name", "disruption"), [("serving-1", ""), ("serving-2", EVICTED)])
def test_pod_that_left_otherwise_is_noticed(machine: Machine, name: str, disruption: str) -> None:
    """A pod that was deleted without the Eviction API, or that was not expected to leave, is an error."""
    witness = Witness(now(machine), {})
    witness.look(moment(pod(name, leaving=True, disruption=disruption)))
    with pytest.raises(DemoError, match=f"watching work/{name}: it left because of"):
        witness.kept(now(machine), ["work/serving-1"])


def test_evicted_pod_is_remembered_after_it_has_gone(machine: Machine) -> None:
    """Who was seen leaving counts, though the last moment does not show him."""
    witness = Witness(now(machine), {})
    witness.look(moment(pod("serving-1", leaving=True, disruption=EVICTED)))
    witness.look(moment())
    assert ["work/serving-1"] == list(witness.left)


def test_budget_that_is_not_kept_is_noticed(machine: Machine) -> None:
    """A leaving pod no longer counts as ready."""
    witness = Witness(now(machine), {SERVING: 1})
    witness.look(moment(pod("serving-1"), pod("serving-2", leaving=True)))
    assert {SERVING: 1} == witness.fewest_ready
    with pytest.raises(DemoError, match="0 ready, its budget wants 1"):
        witness.look(moment(pod("serving-1", ready=False), pod("serving-2", leaving=True)))


def test_nodes_that_are_out_are_counted(machine: Machine) -> None:
    """The most that were out at one moment stays known."""
    witness = Witness(now(machine), {})
    out, in_service = (NodeView(name, taken_out=name != "n3") for name in ("n1", "n3"))
    witness.look(moment(nodes=(out, NodeView("n2", taken_out=True), in_service)))
    witness.look(moment(nodes=(out, in_service)))
    assert 2 == witness.most_out


def test_figures_of_the_story_are_those_of_the_scene() -> None:
    """What the story checks against is what the files of the scene say."""
    import yaml

    pool = yaml.safe_load(scene.POOL.read_text())
    assert MAX_OUT == pool["spec"]["disruption"]["maxUnavailable"]
    objects = [d for d in yaml.safe_load_all(scene.WORKLOADS.read_text()) if d["metadata"]["name"] == SERVING]
    specs = {d["kind"]: d["spec"] for d in objects}
    assert REPLICAS == specs["Deployment"]["replicas"]
    assert {SERVING: specs["PodDisruptionBudget"]["minAvailable"]} == BUDGET
    namespaces = {d["metadata"]["namespace"] for d in objects}
    assert {scene.NAMESPACE} == namespaces
