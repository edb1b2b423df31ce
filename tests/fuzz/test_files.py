"""Files that were damaged: the error is one line, and names the file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mig_manager.cli.state_document import parse_machine
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.gpu.journal import Intent, Inventory, Journal, JournalError, Stuck
from mig_manager.planner.node import plan_node
from mig_manager.planner.target import target_of
from mig_manager.sim.model.state import encode
from tests.cli.commands import run
from tests.fuzz.damage import Json, damaged, text_of
from tests.fuzz.machines import CARDS, STATE, a_machine
from tests.fuzz.profile import fuzz, one_line

SIMULATED = json.loads(encode(a_machine().read()))
WANTED = Layout((GpuEntry((SliceRequest(SliceName.parse("1g"), 2),)),))


def a_journal() -> Json:
    """A journal that says everything it can say."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "journal.json")
        targets = {card.uuid: target_of(card) for card in CARDS}
        journal.close(targets, failed="why", stuck=Stuck("boot", "reset", {"GPU-1": "why"}))
        journal.take_stock(Inventory("wish", {"GPU-1": "0:7:0"}))
        journal.begin(Intent("i", "2026-01-02T03:04:05Z", targets, targets, reboot=True, boot_id="boot"))
        return json.loads(journal.path.read_text())


JOURNAL = a_journal()


@given(damaged(SIMULATED), st.sampled_from(["inspect", "plan", "apply"]))
@fuzz(150)
def test_simulated_machines(document: Json, command: str) -> None:
    """A command on a damaged machine says what is wrong in one line, or finds the machine as good as another."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "box.sim"
        path.write_text(text_of(document))
        result = run(command, *([] if command == "inspect" else ["--profile", "all-balanced"]), "--sim", str(path))
    said(result, "box.sim")


@given(damaged(STATE))
@fuzz(150)
def test_exported_machines(document: Json) -> None:
    """An exported machine that was damaged is refused by name and path, or can be planned for."""
    try:
        cards, holders = parse_machine(text_of(document), "box.json")
    except LayoutError as error:
        assert_named(error)
        return
    plan_node(cards, holders, WANTED)


@given(damaged(JOURNAL))
@fuzz(150)
def test_journals(document: Json) -> None:
    """A journal that cannot be understood is an error that names it; what can be is written again as it was read."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "journal.json")
        journal.path.write_text(text_of(document))
        try:
            record = journal.read()
        except JournalError as error:
            one_line(error, "journal.json")
            return
        journal.drop()
        assert record.last_good == journal.read().last_good


def assert_named(error: LayoutError) -> None:
    """The error says in which document, and what; the command line escapes what it quotes."""
    assert str(error).startswith("box.json")
    assert error.problem


def said(result: Any, source: str) -> None:  # noqa: ANN401 - click's Result
    """What a command said on standard error is one error that names the source, or nothing."""
    lines = result.stderr.splitlines()
    if result.exit_code in (1, 2):
        assert [] != lines
        assert lines[-1].startswith(("error: ", "Usage: "))
        assert source in lines[-1] or result.exit_code == 1
