"""NVML that lies: reading, planning and applying end in an error of the port or in the truth, and hurt nobody."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.cli.machines import simulated_reset
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.names import SliceName
from mig_manager.gpu.apply import Means, apply, recover
from mig_manager.gpu.holders import process_holders
from mig_manager.gpu.journal import Journal
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.port import GpuError
from mig_manager.planner.node import plan_node
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed
from tests.fuzz.lies import SETS, Lie, LyingLibrary
from tests.fuzz.machines import WISHES, a_machine
from tests.fuzz.profile import fuzz, one_line
from tests.fuzz.watching import Watch, WatchedGpus, lives
from tests.gpu.worlds import on, wants


@contextmanager
def lying(machine: Machine, lies: list[Lie]) -> Iterator[tuple[Watch, WatchedGpus]]:
    """The machine behind a library that lies, and the port on it, watched."""
    with installed(machine, lambda _: None):
        watch = Watch(machine, pynvml.nvmlLib, lies)
        pynvml.nvmlLib = LyingLibrary(pynvml.nvmlLib, lies, watch.destroying)
        yield watch, WatchedGpus(NvmlGpus(), watch)


@given(SETS)
@fuzz(150)
def test_reading(lies: list[Lie]) -> None:
    """What a lying library says is an error of the port, or cards that can be planned for and written down."""
    machine = a_machine()
    with lying(machine, lies) as (_, gpus):
        try:
            with gpus.session() as session:
                cards = session.cards()
                holders = process_holders(session, [card.uuid for card in cards])
        except GpuError as error:
            one_line(error)
            return
    for card in cards:
        assert f"{card.name}{card.model}{card.uuid}{card.bus_id}".isprintable()
        assert all(SliceName.parse(str(profile)) for profile in card.profiles)
        for instance in card.instances:
            assert instance.placement in card.profiles[instance.profile_id].placements
    for layout in (wants(on(0, "1g", "3g")), wants(on(1, "7g"))):
        plan_node(cards, holders, layout)


@given(SETS, WISHES, st.integers(0, 40))
@fuzz(120)
def test_applying(lies: list[Lie], wish: Layout, truth_first: int) -> None:
    """Only what was truthfully read and is nobody's is destroyed, and what is in use lives on; the errors are known."""
    machine = a_machine()
    before = lives(machine)
    for lie in lies:
        lie.skip += truth_first
    with tempfile.TemporaryDirectory() as directory, lying(machine, lies) as (watch, gpus):
        journal = Journal(Path(directory) / "journal.json")
        means = Means(
            process_holders, simulated_reset(machine), sleep=lambda _: None, now=lambda: "2026-01-02T03:04:05Z"
        )
        try:
            with gpus.session() as session:
                cards = session.cards()
                plan = plan_node(cards, process_holders(session, [card.uuid for card in cards]), wish)
            result = apply(gpus, plan, journal, means)
            one_line(result.message)
        except GpuError as error:
            one_line(error)
        lies.clear()
        recover(gpus, journal, means)
        assert None is journal.read().intent
    assert [] == watch.hurt
    assert before == lives(machine)
