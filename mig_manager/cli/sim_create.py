"""``mig-manager sim create``."""

from __future__ import annotations

import re
from collections import Counter

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.output import look
from mig_manager.cli.sim import file_argument

_NUMBER = re.compile("[0-9]{1,9}")


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    words = value.split(",") if value else []
    for word in words:
        if not _NUMBER.fullmatch(word):
            raise click.BadParameter(f"{word!r} is no NUMA node; write one number for each GPU, as in 0,0,1,1")
    return tuple(int(word) for word in words)


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
@click.option(
    "--numa",
    metavar="NODE,...",
    default="",
    callback=_numbers,
    help="The NUMA node of each GPU, as in 0,0,1,1. [default: 4 and 4 of eight GPUs, else unknown]",
)
@click.option("--force", is_flag=True, help="Overwrite a machine that is in the file already.")
def create(file: str, gpus: tuple[str, ...], mig: bool, numa: tuple[int, ...], force: bool) -> None:
    """Make a simulated machine in FILE. The same arguments give the same UUIDs.

    \b
    Examples:
      mig-manager sim create box.sim --gpu 'A100-SXM4-80GB*2' --gpu A30
      mig-manager sim create box.sim --gpu 'H100-SXM5-80GB*8' --mig --force
      mig-manager sim create box.sim --gpu 'A100-PCIE-40GB*2' --numa 0,1
    """
    from pathlib import Path

    from mig_manager.sim.model.machine import Machine

    with bad_input():
        if Path(file).exists() and not force:
            raise click.UsageError(f"{file} exists; choose another file, or overwrite it with --force")
        machine = Machine.create(file, gpus, mig=mig, numa=numa, overwrite=force)
    models = Counter(card.model for card in machine.read().cards)
    cards = ", ".join(f"{number} × {model}" for model, number in models.items())
    click.echo(look().plain(f"{file}: {cards}; MIG is {'on' if mig else 'off'}"))
