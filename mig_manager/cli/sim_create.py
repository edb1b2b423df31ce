"""``mig-manager sim create``."""

from __future__ import annotations

from collections import Counter

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.output import look
from mig_manager.cli.sim import file_argument


@click.command(context_settings=CONTEXT)
@file_argument
@click.option(
    "--gpu",
    "gpus",
    metavar="MODEL[*N]",
    multiple=True,
    required=True,
    help="GPUs of the machine; repeat it for several.",
)
@click.option("--mig", is_flag=True, help="Switch MIG on where it exists. [default: off, as delivered]")
@click.option("--force", is_flag=True, help="Overwrite a machine that is in the file already.")
def create(file: str, gpus: tuple[str, ...], mig: bool, force: bool) -> None:
    """Make a simulated machine in FILE. The same arguments give the same UUIDs.

    \b
    Examples:
      mig-manager sim create box.sim --gpu 'A100-SXM4-80GB*2' --gpu A30
      mig-manager sim create box.sim --gpu 'H100-SXM5-80GB*8' --mig --force
    """
    from pathlib import Path

    from mig_manager.sim.model.machine import Machine

    with bad_input():
        if Path(file).exists() and not force:
            raise click.UsageError(f"{file} exists; choose another file, or overwrite it with --force")
        machine = Machine.create(file, gpus, mig=mig, overwrite=force)
    models = Counter(card.model for card in machine.read().cards)
    cards = ", ".join(f"{number} × {model}" for model, number in models.items())
    click.echo(look().plain(f"{file}: {cards}; MIG is {'on' if mig else 'off'}"))
