"""Drivers that lie to the agent: its passes end with a reason, nothing is hurt, and with the truth all comes right."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pynvml
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.port import NotUnderstoodError
from mig_manager.sim.model.machine import Machine
from tests.agent.layouts import every
from tests.agent.process import Process
from tests.agent.worlds import A100 as PCIE
from tests.agent.worlds import World
from tests.fuzz.lies import SETS, Lie, LyingLibrary
from tests.fuzz.profile import fuzz
from tests.fuzz.watching import Watch, WatchedGpus


@contextmanager
def lying_to_the_agent(world: World, lies: list[Lie]) -> Iterator[list[str]]:
    """The driver of that node lies; what was hurt on its word."""
    hurt: list[str] = []

    def gpus() -> WatchedGpus:
        watch = Watch(world.machine, pynvml.nvmlLib, lies, hurt=hurt)
        pynvml.nvmlLib = LyingLibrary(pynvml.nvmlLib, lies, watch.destroying)
        return WatchedGpus(NvmlGpus(), watch)

    with patch("tests.agent.worlds.NvmlGpus", gpus):
        yield hurt


@given(SETS, st.integers(0, 60))
@fuzz(20)
def test_passes(lies: list[Lie], truth_first: int) -> None:
    """Whatever a driver says in the middle of a change, a slice in use stays, and with the truth all comes right."""
    for lie in lies:
        lie.skip += truth_first
    with tempfile.TemporaryDirectory() as directory:
        world = a_world(Path(directory))
        with lying_to_the_agent(world, lies) as hurt:
            for _ in range(8):
                ending = world.run_pass(Process(look=world.check))
                reason = getattr(ending.result, "reason", "Ready")
                if reason == NotUnderstoodError.reason:
                    assert ("False", reason) == world.ready
                world.tick()
        assert [] == hurt
        assert world.settle(control=True)[-1].endswith("Done")
        world.assert_clean()
        assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == world.shape()
        assert [] == world.deleted


@given(SETS)
@fuzz(24)
def test_a_driver_that_was_never_understood(lies: list[Lie]) -> None:
    """A driver that lies from the first look on and for ever: a node is not left cordoned or paused for that."""
    for lie in lies:
        lie.skip, lie.times = 0, 10**9
    with tempfile.TemporaryDirectory() as directory:
        world = a_world(Path(directory))
        before = world.shape()
        with lying_to_the_agent(world, lies) as hurt:
            for _ in range(4):
                ending = world.run_pass(Process(look=world.check))
                world.tick()
        assert [] == hurt
        if getattr(ending.result, "reason", "") == NotUnderstoodError.reason:
            assert ("False", NotUnderstoodError.reason) == world.ready
            assert before == world.shape()
            world.assert_clean()


def a_world(directory: Path) -> World:
    """A node that is about to be cut anew; a pod is on a slice that stays."""
    machine = Machine.create(None, [PCIE], mig=True)
    for name, start in (("1g", 0), ("2g", 2), ("3g", 4)):
        machine.add_instance(0, name, start=start)
    world = World(machine, directory / "journal.json")
    world.pod("busy", "nvidia.com/mig-3g.40gb")
    world.want(every("1g*3", "3g"))
    world.run_pass()
    world.grant()
    return world
