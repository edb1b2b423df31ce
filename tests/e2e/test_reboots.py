"""Cards whose MIG mode no reset changes: the node is rebooted by the configured command, where that is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hosts import Host
from tests.e2e.layouts import SEVEN
from tests.e2e.world import World

PROFILE = "all-1g.10gb"


def told(world: World, asked: Path, max_impact: str) -> Host:
    """A virtual machine with MIG off that shall have slices; its reboot command writes a line into a file."""
    host = world.host("A100-SXM4-80GB", mig=False, agent=False)
    with host.machine.change() as state:
        state.cards[0].passthrough = True
    host.agent.options = ("--reboot-command", f"sh -c 'echo reboot >> {asked}'")
    world.start_agent(host)
    terms: dict[str, Any] = {"maxImpact": max_impact, "drain": {"force": True}}
    world.config(PROFILE, disruption=terms)
    return host


def test_node_is_rebooted_once_and_goes_on(world: World, tmp_path: Path) -> None:
    """Everybody has left, the command is run once, and whoever runs on the next boot finishes the change."""
    asked = tmp_path / "asked"
    host = told(world, asked, "RebootNode")
    before = host.machine.read().boot_id
    world.until("the agent to ask for a reboot", asked.exists)
    assert world.node(host)["spec"]["unschedulable"]
    world.until("the status to say so", lambda: world.reason(host) == "Rebooting")

    host.agent.kill()
    host.simulated.reboot()
    assert before != host.machine.read().boot_id
    world.start_agent(host)
    world.finished(host, SEVEN, PROFILE)
    world.ready()
    assert "reboot\n" == asked.read_text()
    assert host.machine.read().boot_id == world.status(host)["bootID"]
    assert not world.node(host)["spec"].get("unschedulable")


@pytest.mark.parametrize("max_impact", ["EvictPods", "FreeSlices"])
def test_nothing_is_rebooted_that_may_not_be(world: World, tmp_path: Path, max_impact: str) -> None:
    """With less allowed the node is Blocked and says what it would take; it stays up, open, and as it is."""
    asked = tmp_path / "asked"
    host = told(world, asked, max_impact)
    before = host.machine.read().boot_id
    world.until("the pool to be blocked", lambda: world.pool_reason() in ("ImpactNotAllowed", "RebootRequired"))
    world.until("the plan to say so", lambda: world.status(host).get("plan", {}).get("impact") == "RebootNode")
    assert {} == host.counts()
    assert not asked.exists()
    assert before == host.machine.read().boot_id
    world.until("the node to be open", lambda: not world.node(host)["spec"].get("unschedulable"))
