"""Progress of something that takes minutes: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Report = Callable[[str, int, int], None]
"""``report(text, done, total)`` replaces what is shown; a total of 0 means that it is not known."""

PLAIN_INTERVAL_S = 20.0
"""Without a terminal (CI logs) a changed count is worth a line this often; a new text always is."""


@contextmanager
def shown(stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Show progress on ``stream`` (standard error) until the block ends."""
    out = sys.stderr if stream is None else stream
    if out.isatty():
        with _live(out) as report:
            yield report
    else:
        yield _plain(out, clock)


@contextmanager
def _live(out: TextIO) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=out), transient=True) as progress:
        task = progress.add_task("", total=None)

        def report(text: str, done: int, total: int) -> None:
            progress.update(task, description=text, completed=done, total=total or None)

        yield report


def _plain(out: TextIO, clock: Callable[[], float]) -> Report:
    started = clock()
    shown_text, shown_at = "", started

    def report(text: str, done: int, total: int) -> None:
        nonlocal shown_text, shown_at
        now = clock()
        if text == shown_text and now - shown_at < PLAIN_INTERVAL_S:
            return
        shown_text, shown_at = text, now
        count = f" ({done} of {total})" if total else ""
        out.write(f"{text}{count}, {now - started:.0f} s\n")
        out.flush()

    return report
