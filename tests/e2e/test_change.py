"""A change of layout, from a person's wish to what pods can have."""

from __future__ import annotations

from tests.e2e.layouts import NARROW, PROFILES, WIDE, both
from tests.e2e.world import World


def test_change(world: World) -> None:
    """Busy slices that both layouts want stay; one pod is evicted, in accordance with its budget; then all is true."""
    host = world.host("A100-SXM4-80GB*2", slices=[WIDE, WIDE])
    world.config("wide", profiles=PROFILES)
    world.finished(host, both(WIDE), "wide")
    pods = [world.pod(f"p{n}", host, "mig-3g.40gb") for n in range(3)]
    world.running(*pods)
    world.budget(2)

    world.edit(profile="narrow")

    world.finished(host, both(NARROW), "narrow")
    world.ready()
    assert 1 == sum(world.phase(pod) == "Gone" for pod in pods)
    assert 1 == world.observer.most_out()
