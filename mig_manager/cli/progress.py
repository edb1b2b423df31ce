"""What happens while a layout is applied: a bar on a terminal, a line per call elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from mig_manager.cli.output import look

if TYPE_CHECKING:
    from mig_manager.gpu.parts import Event
    from mig_manager.planner.plan import Plan

Progress = Callable[["Event"], None]


def calls_of(plan: Plan) -> int:
    """How many changing calls the plan takes, as far as it is known beforehand."""
    total = 0
    for card in plan.cards:
        change = card.difference
        total += sum(1 + len(i.compute) for i in change.destroy) + sum(1 + len(s.compute) for s in change.create)
        total += sum(len(k.destroy_compute) + len(k.create_compute) for k in change.keep)
        total += change.set_mode is not None
    return total + any(card.reset for card in plan.cards)


@contextmanager
def showing_progress(total: int | None, *, quiet: bool) -> Iterator[Progress]:
    """Something that is told of every call before it is made. ``total`` ``None`` means that nobody knows.

    A change that has begun goes on when nobody reads about it any more.
    """
    if quiet:
        yield lambda _: None
        return
    if not look().color:

        def line(event: Event) -> None:
            with suppress(OSError):
                click.echo(f"  {event}")

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns) as bar:
        task = bar.add_task("looking at the cards", total=total)
        started = 0

        def progress(event: Event) -> None:
            nonlocal started
            with suppress(OSError):
                bar.update(task, description=str(event), completed=started)
                bar.console.print(f"  {event}", highlight=False)
            started += 1

        yield progress
        bar.update(task, description="read back", completed=started)
