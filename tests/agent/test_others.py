"""Others who cut the cards, share them by MPS, or are at work on the node: nothing is touched, and they are named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from mig_manager.agent.autoscalers import KEPT_OFF, keep_off, let_go
from mig_manager.agent.foreign import dra_driver
from mig_manager.agent.names import CORDONED, KEPT
from mig_manager.kube.kinds import (
    KINDS,
    LEASE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_SLICE,
    RESOURCE_SLICE_BETA,
    Kind,
)
from mig_manager.kube.memory import MemoryCluster, Store
from tests.agent.layouts import every
from tests.agent.moments import ready_message
from tests.agent.stories import Make, advance, applied, granted, guard
from tests.agent.worlds import AGENT, World

GATE = "nvidia.com/gpu.deploy.mig-manager"
CONFIG = "nvidia.com/mig.config"
STATE = f"{CONFIG}.state"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
SCALE_DOWN, DISRUPT = KEPT_OFF


def mark(w: World, labels: Mapping[str, str | None]) -> None:
    """Somebody labels the Node."""
    w.admin.patch(NODE, "n1", {"metadata": {"labels": dict(labels)}})


def annotate(w: World, **annotations: str | None) -> None:
    """Somebody annotates the Node."""
    w.admin.patch(NODE, "n1", {"metadata": {"annotations": annotations}})


def untouched(w: World, ending: str, text: str) -> None:
    """Two passes end so, for that reason, and the node is as it was."""
    before = w.shape()
    assert [f"take_up: {ending}"] * 2 == w.settle(2)
    assert text in ready_message(w)
    assert before == w.shape()
    assert {} == w.grant_status
    assert CORDONED not in w.annotations
    w.assert_clean()


# -- NVIDIA's MIG manager --


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({GATE: "true", STATE: "pending"}, "in the middle of a change"),
        ({GATE: "true", STATE: "rebooting"}, "in the middle of a change"),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, "has left nvidia.com/gpu.deploy.dcgm=paused-for"),
    ],
)
def test_mig_manager_that_was_interrupted_is_foreign(world: Make, labels: dict[str, str], text: str) -> None:
    """In the middle of its change, without a pod just now, it would go on; what it left paused nobody else resumes."""
    w = granted(world)
    mark(w, labels)
    untouched(w, "ForeignManager", text)
    mark(w, dict.fromkeys(labels))
    assert "release: Done" == w.settle()[-1]


def test_who_is_in_charge_is_said_before_anything_is_granted(world: Make) -> None:
    """The plan names him, so that no slot is given to a node that would not use it; and no more when he has gone."""
    w = granted(world)
    w.revoke()
    mark(w, {GATE: "true", STATE: "pending"})
    w.settle(2)
    assert "ForeignManager" == w.status["plan"]["reason"]
    assert "blocked" == w.labels["state"]
    mark(w, {GATE: None, STATE: None})
    w.settle(2)
    assert "reason" not in w.status["plan"]


@pytest.mark.parametrize(
    "labels",
    [
        {CONFIG: "all-1g.10gb"},
        {CONFIG: "all-1g.10gb", GATE: "true"},
        {CONFIG: "all-1g.10gb", GATE: "true", STATE: "success"},
        {CONFIG: "all-1g.10gb", GATE: "false", STATE: "pending"},
    ],
)
def test_labels_of_a_mig_manager_that_is_not_there_are_no_obstacle(world: Make, labels: dict[str, str]) -> None:
    """The operator leaves its labels behind, and people may choose profiles by that label."""
    w = granted(world)
    mark(w, labels)
    assert "release: Done" == w.settle()[-1]


# -- MPS --


def mps_daemon(w: World, labels: dict[str, str], container: str = "c") -> None:
    spec = {"nodeName": "n1", "containers": [{"name": container}]}
    w.kube.create(POD, {"metadata": {"name": "mps", "labels": labels}, "spec": spec}, "gpu-operator")


@pytest.mark.parametrize("labels", [{"nvidia.com/mps.capable": "true"}, {"nvidia.com/gpu.sharing-strategy": "mps"}])
def test_mps_is_refused_where_there_would_be_mig(world: Make, labels: dict[str, str]) -> None:
    """The device plugin would refuse MIG devices, and feature discovery would end: so nothing is begun."""
    w = granted(world)
    mark(w, labels)
    untouched(w, "MPSConfigured", "MPS and MIG exclude each other: take sharing.mps out")


def test_mps_daemon_is_refused_by_either_name(world: Make) -> None:
    """The operator's daemon is known by its label, the chart's by its container."""
    w = granted(world)
    mps_daemon(w, {"app": "nvidia-device-plugin-mps-control-daemon"})
    untouched(w, "MPSConfigured", "(pod gpu-operator/mps)")
    w.kube.delete(POD, "mps", "gpu-operator", grace_s=0)
    mps_daemon(w, {"app.kubernetes.io/name": "nvidia-device-plugin"}, "mps-control-daemon-ctr")
    untouched(w, "MPSConfigured", "(pod gpu-operator/mps)")
    w.kube.delete(POD, "mps", "gpu-operator", grace_s=0)
    assert "release: Done" == w.settle()[-1]


def test_mps_is_no_obstacle_where_mig_goes(world: Make) -> None:
    """Cards that get rid of MIG may be shared by MPS afterwards."""
    from mig_manager.geometry.layout import MigMode

    w = world("A100-PCIE-80GB")
    w.want(every(mig=MigMode.DISABLED))
    w.run_pass()
    w.grant()
    mark(w, {"nvidia.com/mps.capable": "true"})
    assert "release: Done" == w.settle()[-1]
    assert ["off"] == w.shape()


# -- DRA --


def publish(
    cluster: MemoryCluster, node: str = "n1", driver: str = "gpu.nvidia.com", kind: Kind = RESOURCE_SLICE
) -> None:
    spec = {"nodeName": node, "driver": driver, "pool": {"name": node}}
    cluster.create(kind, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})


def test_dra_driver_is_foreign(world: Make) -> None:
    """Cards that NVIDIA's DRA driver publishes are its own to cut."""
    w = granted(world)
    publish(w.admin)
    untouched(w, "ForeignManager", "DRA driver publishes the cards of this node (ResourceSlice n1-gpu.nvidia.com)")
    w.admin.delete(RESOURCE_SLICE, "n1-gpu.nvidia.com")
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize(("node", "driver"), [("n2", "gpu.nvidia.com"), ("n1", "compute-domain.nvidia.com")])
def test_slices_of_other_nodes_and_drivers_are_no_obstacle(world: Make, node: str, driver: str) -> None:
    """Only the cards of this node, and only NVIDIA's GPU driver, are meant."""
    w = granted(world)
    publish(w.admin, node, driver)
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize("served", [RESOURCE_SLICE_BETA, None])
def test_clusters_without_the_api(served: Kind | None) -> None:
    """An older API server knows it as beta, or not at all."""
    kinds = frozenset(KINDS) - {RESOURCE_SLICE} | ({served} if served else set())
    cluster = MemoryCluster(Store(served=kinds), "agent")
    publish(cluster, kind=RESOURCE_SLICE_BETA)
    assert bool(served) is bool(dra_driver(cluster, "n1"))


def asked_for_slices(w: World) -> list[str]:
    """Requests of which one reads ResourceSlices, as they are made."""
    asked: list[str] = []
    w.process.look = lambda: asked.append(w.process.names[-1])
    return asked


def test_no_slot_for_a_node_that_somebody_has_elsewhere(world: Make) -> None:
    """Who was found when a slot came stands in the plan, whether there is a grant or not, until he is gone."""
    w = granted(world)
    publish(w.admin)
    w.run_pass()
    assert "ForeignManager" == w.status["plan"]["reason"]
    w.revoke()
    w.settle(2, seconds=60)
    assert "ForeignManager" == w.status["plan"]["reason"]
    assert "DRA driver publishes the cards" in ready_message(w)
    w.admin.delete(RESOURCE_SLICE, "n1-gpu.nvidia.com")
    w.settle(1)
    assert "reason" not in w.status["plan"]
    asked = asked_for_slices(w)
    w.settle(1)
    assert 0 == asked.count("list ResourceSlice")


def test_nobody_is_asked_again_while_the_node_is_held(world: Make) -> None:
    """It is one request before the grant is taken up, and none after."""
    w = granted(world)
    asked = asked_for_slices(w)
    w.settle()
    assert 1 == asked.count("list ResourceSlice")


# -- maintenance --


def taint(w: World, key: str) -> None:
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler is deleting the node"),
        ("DeletionCandidateOfClusterAutoscaler", "the cluster autoscaler is about to delete the node"),
        ("karpenter.sh/disrupted", "Karpenter is replacing the node"),
        ("karpenter.sh/disruption", "Karpenter is replacing the node"),
        ("medik8s.io/drain", "the node maintenance operator is draining the node"),
    ],
)
def test_nodes_that_are_taken_away_are_left_alone(world: Make, key: str, text: str) -> None:
    """What another tool is about to delete or drain is not taken out by us too; afterwards it is our turn."""
    w = granted(world)
    taint(w, key)
    untouched(w, "OtherMaintenance", f"{text} (taint {key})")
    w.admin.patch(NODE, "n1", {"spec": {"taints": None}})
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize(
    "state", ["cordon-required", "drain-required", "pod-restart-required", "uncordon-required", "upgrade-failed"]
)
def test_driver_upgrade_of_the_operator_goes_first(world: Make, state: str) -> None:
    """While the driver is being replaced, or that has failed, the cards are not ours to change."""
    w = granted(world)
    mark(w, {UPGRADE: state})
    untouched(w, "OtherMaintenance", f"the GPU operator is upgrading the driver ({UPGRADE}={state})")
    mark(w, {UPGRADE: "upgrade-done"})
    assert "release: Done" == w.settle()[-1]


def test_driver_upgrade_that_has_not_begun_is_not_waited_for(world: Make) -> None:
    """A node can wait for its upgrade for weeks."""
    w = granted(world)
    mark(w, {UPGRADE: "upgrade-required"})
    assert "release: Done" == w.settle()[-1]


def reserve(w: World, holder: str | None = "node-maintenance", minutes: float = 0, seconds: int | None = 3600) -> None:
    renewed = (w.clock.now() - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds}
    w.admin.create(LEASE, {"metadata": {"name": "node-n1"}, "spec": spec}, "medik8s-leases")


@pytest.mark.parametrize(
    ("holder", "minutes", "seconds", "reserved"),
    [
        ("node-maintenance", 0, 3600, True),
        ("node-maintenance", 61, 3600, False),
        ("node-maintenance", 0, None, False),
        (None, 0, 3600, False),
    ],
)
def test_maintenance_lease(
    world: Make, holder: str | None, minutes: float, seconds: int | None, reserved: bool
) -> None:
    """A Lease that somebody holds reserves the node as long as it lasts, where agents are told to look for it."""
    w = granted(world)
    reserve(w, holder, minutes, seconds)
    with w.agent(maintenance_leases="medik8s-leases") as agent:
        agent.run_pass()
    if reserved:
        assert "node-maintenance has reserved the node (Lease medik8s-leases/node-n1)" == ready_message(w)
        assert {} == w.grant_status
    else:
        assert "Held" == w.grant_status["state"]


def test_no_maintenance_lease(world: Make) -> None:
    """A node that nobody has reserved is ours."""
    w = granted(world)
    with w.agent(maintenance_leases="medik8s-leases") as agent:
        agent.run_pass()
    assert "Held" == w.grant_status["state"]


def mig_manager_starts(w: World) -> None:
    """Somebody turns NVIDIA's MIG manager on."""
    metadata = {"name": "theirs", "labels": {"app": "nvidia-mig-manager"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    w.kube.create(POD, {"metadata": metadata, "spec": spec}, "gpu-operator")


@pytest.mark.parametrize(
    ("begin", "reason", "end"),
    [
        (
            lambda w: mark(w, {UPGRADE: "cordon-required"}),
            "OtherMaintenance",
            lambda w: mark(w, {UPGRADE: "upgrade-done"}),
        ),
        (mig_manager_starts, "ForeignManager", lambda w: w.kube.delete(POD, "theirs", "gpu-operator", grace_s=0)),
    ],
    ids=["driver upgrade", "MIG manager"],
)
def test_others_that_begin_in_mid_flight_go_first(
    world: Make, begin: Callable[[World], None], reason: str, end: Callable[[World], None]
) -> None:
    """Before the first destroy the node is given back as it was, nobody else is evicted, and afterwards it goes on."""
    w = granted(world)
    guard(w)
    advance(w, "drain")
    before = w.shape()
    begin(w)
    assert f"stand_down: {reason}" == w.settle(1)[-1]
    state = w.grant_status
    assert ("Released", "Aborted", reason) == (state["state"], state["result"], state["reason"])
    assert before == w.shape()
    assert [] == w.deleted
    w.assert_clean()
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    end(w)
    w.tick(60)
    assert "release: Done" == w.settle(control=True)[-1]
    assert ["default/goes"] == w.deleted


# -- autoscalers --


def kept(w: World) -> tuple[str | None, str | None]:
    return w.annotations.get(SCALE_DOWN), w.annotations.get(DISRUPT)


def test_autoscalers_are_kept_off_while_the_node_is_out(world: Make) -> None:
    """From the patch of the cordon to that of the release, and what stood there before is there again."""
    w = granted(world)
    guard(w)
    annotate(w, **{SCALE_DOWN: "false"})
    versions: list[bool] = []
    advance(w, "drain")
    for version in w.store.history(NODE, "n1"):
        notes = (version.body or {"metadata": {}})["metadata"].get("annotations") or {}
        versions.append((CORDONED in notes) is (notes.get(DISRUPT) == "true") is (KEPT in notes))
    assert all(versions)
    assert ("true", "true") == kept(w)
    w.admin.delete(POD, "goes", "default")
    assert "release: Done" == w.settle()[-1]
    assert ("false", None) == kept(w)
    w.assert_clean()


def test_persons_own_word_to_autoscalers_stays(world: Make) -> None:
    """Who has kept autoscalers off for his own reasons, before or meanwhile, goes on doing so."""
    w = granted(world)
    annotate(w, **{SCALE_DOWN: "true"})
    advance(w, "pause_clients")
    annotate(w, **{DISRUPT: "4h"})
    assert "release: Done" == w.settle()[-1]
    assert ("true", "4h") == kept(w)


def test_autoscalers_are_kept_off_a_node_that_somebody_else_has_cordoned(world: Make) -> None:
    """They take cordoned nodes away, whoever has cordoned them."""
    w = granted(world)
    w.cordon()
    advance(w, "pause_clients")
    assert ("true", "true") == kept(w)
    assert CORDONED not in w.annotations
    assert "release: Done" == w.settle()[-1]
    assert (None, None) == kept(w)
    w.assert_clean()


@pytest.mark.parametrize("end", [World.revoke, World.uncordon, World.leave_pool])
def test_autoscalers_have_the_node_again_however_it_ends(world: Make, end: object) -> None:
    """Revoked, uncordoned by a person, or no longer in a pool: the word is taken back with the rest."""
    w = granted(world)
    guard(w)
    advance(w, "drain")
    assert ("true", "true") == kept(w)
    end(w)  # type: ignore[operator]
    w.run_pass()
    assert (None, None) == kept(w)
    w.assert_clean()


def test_word_to_autoscalers_that_is_left_over_is_taken_back(world: Make) -> None:
    """On a node that is not held it is nobody's, as with a pause."""
    w = applied(world)
    MemoryCluster(w.store, AGENT).patch(NODE, "n1", {"metadata": {"annotations": keep_off(w.node, AGENT)}})
    w.run_pass()
    assert (None, None) == kept(w)
    w.assert_clean()


def without_record(make: Make, before: dict[str, str | None]) -> World:
    """A node that is out, and a person has removed our record of what autoscalers were told ``before``."""
    w = granted(make)
    guard(w)
    annotate(w, **before)
    advance(w, "drain")
    assert ("true", "true") == kept(w)
    annotate(w, **{KEPT: None})
    return w


@pytest.mark.parametrize("before", [None, "true"])
def test_word_to_autoscalers_without_its_record_is_taken_back(world: Make, before: str | None) -> None:
    """It is ours by its owner; what a person had written before is not, and stays."""
    w = without_record(world, {SCALE_DOWN: before})
    w.run_pass()
    assert ("true", "true") == kept(w)
    w.admin.delete(POD, "goes", "default")
    assert "release: Done" == w.settle()[-1]
    assert (before, None) == kept(w)
    w.assert_clean()


def test_word_to_autoscalers_without_its_record_is_known_for_ours_after_the_end(world: Make) -> None:
    """Removed while no agent looked, on a node that is not held any more, it is taken back as with its record."""
    w = without_record(world, {})
    w.leave_pool()
    w.run_pass()
    assert (None, None) == kept(w)
    w.assert_clean()


def test_word_to_autoscalers_that_a_person_has_given_since_stays(world: Make) -> None:
    """He took ours away and gave his own, in the same words: that is not taken back, record or not."""
    w = granted(world)
    advance(w, "pause_clients")
    annotate(w, **{DISRUPT: None})
    annotate(w, **{DISRUPT: "true"})
    assert "release: Done" == w.settle()[-1]
    assert (None, "true") == kept(w)
    w.assert_clean()
    w.run_pass()
    assert (None, "true") == kept(w)


def test_word_that_somebody_says_beside_us_stays() -> None:
    """Applied server-side with our value, an annotation has two owners: it is his as well, and not ours to remove."""

    def owned(manager: str, *names: str) -> dict[str, object]:
        return {"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in names}}}}

    record = json.dumps({SCALE_DOWN: None, DISRUPT: None})
    metadata = {
        "annotations": {SCALE_DOWN: "true", DISRUPT: "true", KEPT: record},
        "managedFields": [owned(AGENT, SCALE_DOWN, DISRUPT), owned("argocd", DISRUPT)],
    }
    assert {SCALE_DOWN: None, KEPT: None} == let_go({"metadata": metadata}, AGENT)


@pytest.mark.parametrize(
    ("record", "former"),
    [
        ("garbage", {SCALE_DOWN: None, DISRUPT: None}),
        ("7", {SCALE_DOWN: None, DISRUPT: None}),
        (json.dumps({SCALE_DOWN: "false", DISRUPT: 7, "other": "x"}), {SCALE_DOWN: "false"}),
    ],
)
def test_damaged_record_of_a_word_to_autoscalers(record: str, former: dict[str, str | None]) -> None:
    """What cannot be read is taken for ours, so that nothing is kept for ever; nothing else is ever written."""
    node = {"metadata": {"annotations": {SCALE_DOWN: "true", DISRUPT: "true", "other": "true", KEPT: record}}}
    assert {**former, KEPT: None} == let_go(node, AGENT)
    assert {} == keep_off(node, AGENT)
