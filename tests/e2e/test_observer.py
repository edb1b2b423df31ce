"""The observer sees what it is there for: each broken promise, made up here, is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from mig_manager.agent.names import CORDONED, MANAGER, PAUSED
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.node import SimulatedNode
from tests.e2e.observer import SlicesInUse, judge_budget, judge_cordons, judge_outages
from tests.e2e.plane import PERSON
from tests.e2e.recorder import Event

_versions = itertools.count(1)


def node(  # noqa: PLR0913 - what a Node can say
    name: str, *, cordoned_by: str = "", noted: bool = False, paused: bool = False, ready: bool = True, slices: int = 2
) -> Event:
    annotations = ({CORDONED: "{}"} if noted else {}) | ({PAUSED: "{}"} if paused else {})
    fields = {"manager": cordoned_by, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": annotations,
            "labels": {"migmanager.io/mig-1g.10gb": str(slices)} if slices else {},
            "managedFields": [fields] if cordoned_by else [],
        },
        "spec": {"unschedulable": True} if cordoned_by else {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }
    return Event(next(_versions), NODE, deleted=False, body=body)


def ours(name: str, **said: Any) -> Event:  # noqa: ANN401 - what node() takes
    return node(name, cordoned_by=MANAGER, noted=True, **said)


def gone(name: str) -> Event:
    return Event(next(_versions), NODE, deleted=True, body={"metadata": {"name": name, "uid": name}})


def mignode(name: str, state: str, *, missing: bool = False) -> Event:
    status = {"grant": {"state": state}, "slicesMissing": missing}
    return Event(next(_versions), MIG_NODE, deleted=False, body={"metadata": {"name": name}, "status": status})


def pod(name: str, *, ready: bool = True, evicted: bool = False) -> Event:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    metadata = {"name": name, "uid": name, "labels": {"app": "a"}}
    if evicted:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})
    body = {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}
    return Event(next(_versions), POD, deleted=False, body=body)


def taken_out(name: str) -> Iterator[Event]:
    yield node(name)
    yield mignode(name, "Held")
    yield ours(name)


def test_two_nodes_out_at_once() -> None:
    """The second cordon on an available node breaks a limit of one, and keeps one of two."""
    history = [*taken_out("n1"), *taken_out("n2")]
    with pytest.raises(AssertionError, match=r"n1.*n2.*are taken out, and 1 may be"):
        judge_outages(history, ["n1", "n2"], 1)
    assert 2 == judge_outages(history, ["n1", "n2"], 2)


def test_limit_that_changes() -> None:
    """What counts is the limit at the version at which a node is taken out."""
    history = [*taken_out("n1"), *taken_out("n2")]
    second = history[-1].version
    assert 2 == judge_outages(history, ["n1", "n2"], lambda version: 2 if version >= second else 1)
    with pytest.raises(AssertionError, match=f"at version {second} .* are taken out, and 1 may be"):
        judge_outages(history, ["n1", "n2"], lambda version: 2 if version < second else 1)


def test_one_node_after_the_other() -> None:
    """A node is out until neither cordon nor pause is left, and then no more."""
    paused = [*taken_out("n1"), node("n1", paused=True), *taken_out("n2")]
    with pytest.raises(AssertionError, match="are taken out"):
        judge_outages(paused, ["n1", "n2"], 1)
    free = [*taken_out("n1"), node("n1", paused=True), node("n1"), *taken_out("n2")]
    assert 1 == judge_outages(free, ["n1", "n2"], 1)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([node("n2", ready=False)], id="not ready"),
        pytest.param([node("n2", cordoned_by=PERSON)], id="cordoned by a person"),
        pytest.param([node("n2"), mignode("n2", "Released", missing=True)], id="slices missing"),
        pytest.param([node("n2"), node("n2", slices=1)], id="labels taken back"),
        pytest.param(
            [node("n2", ready=False), ours("n2", paused=True), gone("n2"), node("n2")], id="created again in mid-flight"
        ),
    ],
)
def test_unavailable_anyway(before: list[Event]) -> None:
    """A node that was unavailable anyway is not taken out by us, whatever we do there."""
    history = [*taken_out("n1"), *before, ours("n2")]
    assert 1 == judge_outages(history, ["n1", "n2"], 1)


@pytest.mark.parametrize("state", ["", "Repairing", "Released"])
def test_taken_out_without_a_slot(state: str) -> None:
    """A cordon on an available node needs a slot, even when there is room for it."""
    history = [node("n1"), mignode("n1", state), ours("n1")]
    with pytest.raises(AssertionError, match="without a slot"):
        judge_outages(history, ["n1"], 5)


def test_cordon_of_a_person_lifted_by_us() -> None:
    """Taking a person's cordon away together with our annotation is our doing."""
    stale = node("n1", cordoned_by=PERSON, noted=True)
    with pytest.raises(AssertionError, match="we lifted a cordon"):
        judge_cordons([stale, node("n1")], ["n1"])
    # A person's uncordon leaves the annotation, which we drop afterwards.
    judge_cordons([stale, node("n1", noted=True), node("n1")], ["n1"])


@pytest.mark.parametrize("last", [ours("n1"), node("n1", paused=True), node("n1", noted=True)])
def test_something_left(last: Event) -> None:
    """At the end neither cordon nor pause nor a note of them is left."""
    with pytest.raises(AssertionError, match="is left"):
        judge_cordons([node("n1"), last], ["n1"])
    judge_cordons([node("n1"), last], ["n1"], calm=False)


def test_budget_that_has_not_heard_yet() -> None:
    """A pod that was deleted counts a while longer for the API server, one that was evicted does not."""
    there, deleted = [pod("a"), pod("b"), pod("c")], pod("a", ready=False)
    evicted = pod("b", evicted=True, ready=False)
    with pytest.raises(AssertionError, match="evicting b left 1 of 2"):
        judge_budget([*there, deleted, evicted], {"app": "a"}, 2)
    judge_budget([*there, deleted, evicted], {"app": "a"}, 2, lag_s=60)
    late = replace(evicted, at=deleted.at + 60)
    with pytest.raises(AssertionError, match="evicting b left 1 of 2"):
        judge_budget([*there, deleted, late], {"app": "a"}, 2, lag_s=60)
    both = [pod("a", evicted=True, ready=False), evicted]
    with pytest.raises(AssertionError, match="evicting b left 1 of 2"):
        judge_budget([*there, *both], {"app": "a"}, 2, lag_s=60)


def test_budget_broken() -> None:
    """An eviction that leaves too few healthy pods is seen; pods that fail by themselves are nobody's fault."""
    calm = [pod("a"), pod("b"), pod("c"), pod("a", evicted=True, ready=False)]
    judge_budget(calm, {"app": "a"}, 2)
    with pytest.raises(AssertionError, match="evicting b left 1 of 2"):
        judge_budget([*calm, pod("b", evicted=True, ready=False)], {"app": "a"}, 2)
    judge_budget([*calm, pod("b", ready=False)], {"app": "a"}, 2)


@dataclass
class Books:
    """What the observer needs of a simulated node: its machine, and what its kubelet has given to pods."""

    machine: Machine
    name: str = "n1"
    held: list[PodDevices] = field(default_factory=list)

    @property
    def kubelet(self) -> Books:
        """Itself: it is the books, too."""
        return self

    def active_pods(self) -> list[PodDevices]:
        """Who holds what."""
        return self.held


def test_slice_in_use_destroyed() -> None:
    """A slice that a pod holds is missed when it is gone, even if there is another under its name by then."""
    machine = Machine.create(None, ["A100-SXM4-80GB"], mig=True)
    machine.add_instance(0, "3g.40gb", start=0)
    card = machine.card(0)
    device = mig_uuid(card.uuid, card.instances[0].id, card.instances[0].compute[0].id)
    given = (ContainerDevices("main", (Devices("nvidia.com/mig-3g.40gb", (device,)),)),)
    books = Books(machine, held=[PodDevices("work", "p", given)])
    watch = SlicesInUse(cast("SimulatedNode", books), start=False)
    watch.look()
    assert [] == watch.destroyed
    machine.remove_instance(0, start=0)
    machine.add_instance(0, "3g.40gb", start=0)
    watch.look()
    assert [f"{device} of work/p"] == watch.destroyed

    books.held = []
    machine.remove_instance(0, start=0)
    watch.look()
    assert 1 == len(watch.destroyed)


def test_whole_card_in_use_switched() -> None:
    """A card that a pod has as a whole is there as long as it is not cut."""
    machine = Machine.create(None, ["H100-PCIE-80GB"])
    device = machine.card(0).uuid
    given = (ContainerDevices("main", (Devices("nvidia.com/gpu", (device,)),)),)
    watch = SlicesInUse(cast("SimulatedNode", Books(machine, held=[PodDevices("work", "p", given)])), start=False)
    watch.look()
    assert [] == watch.destroyed
    machine.set_mig(0, enabled=True)
    watch.look()
    assert [f"{device} of work/p"] == watch.destroyed


def test_slices_that_are_gone() -> None:
    """Every slice that goes is counted, one that is made anew under the old name too; a reboot's are not."""
    machine = Machine.create(None, ["A30"], mig=True)
    machine.add_instance(0, "2g.12gb", start=0)
    machine.add_instance(0, "2g.12gb", start=2)
    watch = SlicesInUse(cast("SimulatedNode", Books(machine)), start=False)
    watch.look()
    assert 0 == watch.gone
    machine.remove_instance(0, start=0)
    machine.add_instance(0, "2g.12gb", start=0)
    watch.look()
    machine.remove_instance(0, start=2)
    watch.look()
    assert 2 == watch.gone
    machine.reboot()
    watch.look()
    assert 2 == watch.gone
