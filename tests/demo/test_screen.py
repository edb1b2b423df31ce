"""What the demo prints: rows that stay in their columns, and one line per change where there is no terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mig_manager.sim.demo.screen import WIDTH, Screen
from mig_manager.sim.demo.view import NodeView, View

LONG = (
    "waiting for GPU clients to go: gpu-operator/nvidia-device-plugin-daemonset-abcde, gpu-operator/nvidia-dcgm-abcde"
)
READY = NodeView("a100-2", "all-balanced", "all-balanced", reason="Ready")
BUSY = NodeView("a100-1", "all-balanced", step="pause_clients", reason="PausingClients", message=LONG, taken_out=True)


def view_of(*nodes: NodeView) -> View:
    return View({node.name: node for node in nodes}, {}, 0)


def screen(*, terminal: bool, width: int = 120) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    # A terminal of its own, whatever the environment says of the one that the tests run in.
    console = Console(file=out, force_terminal=terminal, width=width, highlight=False, _environ={"TERM": "xterm"})
    return Screen(console), out


def test_plain_output_says_what_changes_and_nothing_twice() -> None:
    """A node that was ready from the beginning is not mentioned; the same state is said once."""
    shown, out = screen(terminal=False)
    with shown.board() as board:
        for moment in (view_of(READY, BUSY), view_of(READY, BUSY), view_of(BUSY, READY)):
            board.update(moment)
    (line,) = out.getvalue().splitlines()
    assert re.match(r" +\d+\.\d s  a100-1  pause_clients: waiting for GPU clients", line)
    assert line.endswith("…")
    assert len(line) <= WIDTH


@pytest.mark.parametrize("width", [80, 100, 200])
def test_live_rows_keep_their_columns(width: int) -> None:
    """Every row begins its cells where the heading does, and none is longer than 100 columns or the terminal."""
    shown, out = screen(terminal=True, width=width)
    with shown.board() as board:
        board.update(view_of(READY, BUSY))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")
    lines = [line for line in text.split("\n") if line.startswith(("NODE", "a100"))]
    assert 3 <= len(lines)
    assert {lines[0].index("NOW")} == {lines[1].index("ready"), lines[2].index("pause_clients")}
    assert [] == [line for line in lines if len(line) > min(width, WIDTH)]


@pytest.mark.parametrize("terminal", [True, False])
def test_output_of_commands_is_shown_whole(*, terminal: bool) -> None:
    """Nothing is cut off: the last columns are what a table is read for."""
    shown, out = screen(terminal=terminal, width=80)
    shown.command("kubectl", "x" * 150)
    assert 150 == out.getvalue().count("x")
    assert "…" not in out.getvalue()


def test_node_that_is_not_what_is_wanted_is_not_called_ready() -> None:
    """What the agent said before another profile was wanted, or before a reboot, counts no more."""
    other = NodeView("n", "two-tenants", "all-balanced", reason="Ready")
    rebooted = NodeView("n", "all-balanced", "all-balanced", reason="Ready", boot_id="2", seen_boot_id="1")
    assert (False, "another profile is wanted") == (other.ready, other.now)
    assert (False, "just booted") == (rebooted.ready, rebooted.now)
    assert (True, "ready") == (READY.ready, READY.now)
