"""What a grant allows: with a slot or without, from whom, up to which impact, once or standing."""

from __future__ import annotations

from mig_manager.agent.names import CORDONED
from mig_manager.kube.kinds import LEASE, MIG_NODE, POD
from tests.agent.stories import GOING, Make, applied, granted
from tests.agent.worlds import World


def slips_in(w: World, resource: str, start: int) -> None:
    """A pod that nobody saw coming uses the slice of the first card that begins there."""
    w.kube.create(
        POD,
        {"metadata": {"name": "late"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}},
        "default",
    )
    w.hold("default/late", resource, w.device_at(0, start))


def test_slotless_grant_is_not_used_on_an_available_node(world: Make) -> None:
    """A grant without a slot lets the agent work only where the node is unavailable anyway."""
    w = granted(world, slot=False)
    assert "take_up: NodeAvailable" == w.settle(3)[-1]
    assert {} == w.grant_status
    w.cordon()
    w.settle()
    assert ("Released", "Applied") == (w.grant_status["state"], w.grant_status["result"])
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    w.assert_clean()


def test_former_leaders_slot_is_not_used(world: Make) -> None:
    """A slot is taken up only if the controller that gave it holds the Lease."""
    w = granted(world, by="controller-0")
    assert "take_up: FormerLeader" == w.settle(3)[-1]
    w.admin.delete(LEASE, "controller", "mig-manager")
    assert "take_up: NoLeader" == w.settle(3)[-1]
    w.assert_clean()


def test_released_id_gives_no_slot(world: Make) -> None:
    """After Released an id is good for repairs on an unavailable node only."""
    w = applied(world)
    w.machine.add_instance(0, "1g", start=3)
    assert "take_up: WaitingForTurn" == w.settle(3)[-1]
    w.cordon()
    w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()


def test_impact_beyond_the_limit(world: Make) -> None:
    """A plan that does more than maxImpact allows is refused before the node is touched."""
    w = granted(world, maxImpact="FreeSlices")
    w.pod("goes", GOING)
    assert "take_up: ImpactNotAllowed" == w.settle(2)[-1]
    assert CORDONED not in w.annotations


def test_impact_grows_in_flight(world: Make) -> None:
    """The limit is looked at again as long as nothing was begun."""
    w = granted(world, maxImpact="FreeSlices")
    w.run_pass()
    assert "Held" == w.grant_status["state"]
    slips_in(w, GOING, 2)
    assert "stand_down: ImpactNotAllowed" == w.settle(1)[-1]
    w.assert_clean()


def test_standing_grant_repairs_without_the_controller(world: Make) -> None:
    """Slices that were deleted by hand come back under the grant that was carried out, without a new one."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    ended = w.settle()
    assert "release: Done" == ended[-1]
    assert "Repairing" in {
        (v.body or {}).get("status", {}).get("grant", {}).get("state") for v in w.store.history(MIG_NODE, "n1")
    }
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert 1 == w.grant_status["id"]
    w.assert_clean()


def test_repair_evicts_nobody(world: Make) -> None:
    """A repair under a used grant stands back while something in use would go."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    w.machine.hold(0, start=0, pid=4_190_000)
    assert "take_up: InUse" == w.settle(2)[-1]
    w.machine.free(pid=4_190_000)
    w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()


def test_repair_stands_down_for_a_pod_that_slipped_in(world: Make) -> None:
    """Whatever evicts needs a new id: a repair that meets a pod in its way is aborted."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    w.run_pass()
    assert "Repairing" == w.grant_status["state"]
    slips_in(w, "nvidia.com/mig-1g.10gb.me", 0)
    assert "drain: InUse" == w.settle(1)[-1]
    assert ("Released", "Aborted") == (w.grant_status["state"], w.grant_status["result"])
    assert [] == w.deleted
    w.assert_clean()


def test_labels_are_taken_back_without_a_grant(world: Make) -> None:
    """Slices are missing and the grant is revoked: the labels go, but the node is not cordoned."""
    w = applied(world)
    w.revoke()
    w.machine.remove_instance(0, start=4)
    w.settle(3)
    assert "mig-3g.40gb" not in w.labels
    assert w.status["slicesMissing"]
    w.assert_clean()
