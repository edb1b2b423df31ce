"""Drivers that lie to commands: these end in one line with a documented code, and nothing is hurt."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pynvml
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.api.layout import layout_to_dict
from mig_manager.geometry.layout import Layout
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import encode
from mig_manager.sim.nvml import installed
from tests.cli.commands import run
from tests.fuzz.lies import SETS, Lie, LyingLibrary
from tests.fuzz.machines import WISHES, a_machine
from tests.fuzz.profile import fuzz, one_line
from tests.fuzz.watching import Watch, WatchedGpus, lives

FILE = "a file with the wish"

COMMANDS = st.sampled_from(
    [
        ("inspect",),
        ("inspect", "-o", "json"),
        ("export",),
        ("plan", "--profile", "all-1g"),
        ("plan", "--profile", "all-balanced", "-o", "json"),
        ("apply", "--profile", "all-disabled"),
        ("apply", "-f", FILE, "--dry-run"),
        ("apply", "-f", FILE),
        ("apply", "-f", FILE),
        ("apply", "-f", FILE),
    ]
)

MACHINE = a_machine().read()


@contextmanager
def lying_to_commands(lies: list[Lie]) -> Iterator[list[Watch]]:
    """Whatever machine a command opens lies; the watches of those."""
    watches: list[Watch] = []

    @contextmanager
    def lying(machine: Machine) -> Iterator[None]:
        with installed(machine, lambda _: None):
            watches.append(Watch(machine, pynvml.nvmlLib, lies))
            pynvml.nvmlLib = LyingLibrary(pynvml.nvmlLib, lies, watches[-1].destroying)
            yield

    with (
        patch("mig_manager.sim.nvml.installed", lying),
        patch("mig_manager.gpu.nvml.NvmlGpus", lambda: WatchedGpus(NvmlGpus(), watches[-1])),
        patch("time.sleep", lambda _: None),
    ):
        yield watches


@given(SETS, COMMANDS, WISHES, st.integers(0, 40))
@fuzz(150)
def test_commands(lies: list[Lie], command: tuple[str, ...], wish: Layout, truth_first: int) -> None:
    """A command ends with a documented code, says at most one error, and hurts nobody."""
    for lie in lies:
        lie.skip += truth_first
    with tempfile.TemporaryDirectory() as directory:
        box, file = Path(directory) / "box.sim", Path(directory) / "wish.json"
        file.write_text(json.dumps({"name": "wish", **layout_to_dict(wish)}))
        box.write_text(encode(MACHINE))
        machine = Machine.open(box)
        before = lives(machine)
        with lying_to_commands(lies) as watches:
            result = run(*(str(file) if word == FILE else word for word in command), "--sim", str(box))
        assert before == lives(machine)
    for line in result.stderr.splitlines():
        one_line(line)
    errors = sum(line.startswith("error: ") for line in result.stderr.splitlines())
    assert (result.exit_code, errors) in {(0, 0), (1, 1), (2, 1), (3, 0), (5, 0), (5, 1)}, result.output
    assert [] == [hurt for watch in watches for hurt in watch.hurt]
