"""How the demo looks: a live table on a terminal, a line per change elsewhere; at most 100 columns of our own."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mig_manager.sim.demo.view import NodeView, View
from mig_manager.wording import shortened

WIDTH = 100
COLUMNS = (6, 13, 35)
"""For node, profile and slices of the scene; the rest of a line says what is going on."""


class Board(Protocol):
    """Shows what is going on."""

    def update(self, seen: View) -> None:
        """Show this moment."""
        ...


class Screen:
    """Standard output."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._started = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._started

    def act(self, title: str) -> None:
        """Begin a part."""
        self.say("")
        self.console.print(Text(f"── {title} ".ljust(min(WIDTH, self.console.width), "─"), style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Print words, as they are."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def progress(self, text: str) -> None:
        """Say what begins now, with the time."""
        self.say(f"{self.elapsed_s:5.1f} s  {text}", "dim")

    def command(self, line: str, output: str = "") -> None:
        """Print a command and what it printed, whole: a narrow terminal wraps it, as it would for kubectl itself."""
        self.say(f"$ {line}", "bold cyan")
        for text in output.splitlines():
            self.say(text)

    def done(self, text: str) -> None:
        """Say what has been shown to be true."""
        lines = textwrap.wrap(text, min(WIDTH, self.console.width) - 2, break_on_hyphens=False)
        self.say("✓ " + "\n  ".join(lines), "green")

    def board(self) -> AbstractContextManager[Board]:
        """Something that shows the nodes as long as the block lasts."""
        if self.console.is_terminal:
            return _LiveBoard(self.console)
        return nullcontext(_PlainBoard(self.progress))


class _LiveBoard:
    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._width = min(WIDTH, console.width)

    def __enter__(self) -> Board:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, seen: View) -> None:
        """Draw the table anew."""
        head = _row(("NODE", "PROFILE", "SLICES", "NOW"), self._width, "bold")
        nodes = seen.nodes.values()
        rows = [head, *(_row((n.name, n.profile, n.slices, n.now), self._width, _style(n)) for n in nodes)]
        self._live.update(Text("\n").join(rows), refresh=True)


class _PlainBoard:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, str] = {}

    def update(self, seen: View) -> None:
        """Print the nodes that do something else than before."""
        for node in seen.nodes.values():
            said = self._said.get(node.name, "ready")
            self._said[node.name] = node.now
            if said != node.now:
                self._say(shortened(f"{node.name}  {node.now}", WIDTH - 9))


def _row(cells: tuple[str, str, str, str], width: int, style: str) -> Text:
    """One line of the table: columns that do not move while their content changes."""
    *first, last = cells
    text = "  ".join([*(cell.ljust(size) for cell, size in zip(first, COLUMNS, strict=True)), last])
    return Text(shortened(text, width - 1), style=style)


def _style(node: NodeView) -> str:
    if node.ready:
        return "green"
    return "yellow" if node.taken_out else "dim"
