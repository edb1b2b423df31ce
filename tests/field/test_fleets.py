"""Reports about controllers of many nodes: locks that outlive their holder, load that grows, finalizers that stay."""

from __future__ import annotations

import json

from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE
from tests.controller.world import World, applied, joined


def test_kured_478_a_node_that_is_deleted_takes_its_slot_along() -> None:
    """The lock of a node that is gone holds up nobody: slots are counted from what is there."""
    world = World()
    controller, (first, second) = joined(world, "n1", "n2")
    controller.run()
    assert first.take_up()
    controller.run()
    assert {} == second.grant
    world.admin.delete(NODE, "n1")
    world.admin.delete(MIG_NODE, "n1")
    controller.sync()
    controller.run()
    assert second.grant["slot"]


def test_nfd_2550_the_pools_status_does_not_grow_with_the_fleet() -> None:
    """Counts and up to three names; what each node is like stands in an object of its own."""
    sizes = []
    for count in (5, 50):
        world = World()
        controller, _ = joined(world, *(f"n{number:03}" for number in range(count)))
        controller.run()
        assert count == world.status()["nodes"]["total"]
        sizes.append(len(json.dumps(world.status())))
    assert abs(sizes[0] - sizes[1]) < 20


def test_kopf_587_no_object_has_a_finalizer() -> None:
    """Nothing is held up, and nobody fights about it: what must go in order is for grants and owners to say."""
    world = World()
    applied(world, "n1", "n2")
    for kind in (NODE, MIG_NODE, MIG_CONFIG):
        found = world.admin.list(kind).items
        assert found
        assert not [one for one in found if one["metadata"].get("finalizers")]
