"""Whatever a program does, it gets the same from the in-process object and from the library, codes included."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import Quirks
from tests.libnvml import programs
from tests.libnvml.callers import in_c, in_process, in_this_python
from tests.libnvml.operations import OPERATIONS
from tests.libnvml.session import Session

GPUS = ["A100-SXM4-80GB", "H100-SXM5-80GB", "A30", "T4"]
CHOICE = st.integers(0, 255)
STEPS = st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), CHOICE, CHOICE, CHOICE), min_size=5, max_size=60)
OPTIONS = st.fixed_dictionaries(
    {
        "mig": st.integers(0, 9).map(bool),
        "root": st.integers(0, 9).map(bool),
        "half_swapped": st.sampled_from([[], [0]]),
        "quirks": st.sampled_from([Quirks(), Quirks(no_double_memory=True), Quirks(gapped_mig_indices=True)]),
    }
)
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def caller(library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library, and the program in C that calls what it is told."""
    return library, programs.compiled("caller.c", tmp_path_factory.mktemp("caller"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the machines of all examples are."""
    return tmp_path_factory.mktemp("machines")


@settings(max_examples=30, deadline=None)
@given(steps=STEPS, options=OPTIONS)
def test_all_ways_of_calling_agree(
    caller: tuple[Path, Path], directory: Path, steps: list[tuple[int, int, int, int]], options: dict[str, Any]
) -> None:
    """Codes, every byte of every output, and the machine afterwards."""
    library, program = caller
    machines = [Machine.create(directory / f"{next(NUMBERS)}.sim", GPUS, **options) for _ in range(3)]
    with ExitStack() as stack:
        ways = [
            in_process(machines[0]),
            in_this_python(library, machines[1]),
            in_c(library, program, machines[2]),
        ]
        sessions = [Session(stack.enter_context(way), machine) for way, machine in zip(ways, machines, strict=True)]
        for operation, *choices in [(0, 0, 0, 0), *steps]:
            expected, *others = [OPERATIONS[operation](session, *choices) for session in sessions]
            assert [expected, expected] == others
        # Before the sessions end, which counts as calls for faults that are set.
        before, *after = [machine.read() for machine in machines]
        assert [before, before] == after
