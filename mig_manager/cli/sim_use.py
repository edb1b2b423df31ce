"""``mig-manager sim hold`` and ``sim free``: processes that use slices, and their end."""

from __future__ import annotations

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.sim import file_argument, open_simulated


@click.command(context_settings=CONTEXT)
@file_argument
@click.option("--gpu", type=int, required=True, help="Index of the GPU.")
@click.option("--start", type=int, help="Memory unit at which the slice begins. [default: the whole GPU]")
@click.option(
    "--pid", type=click.IntRange(min=1, max=2**32 - 1), help="Process id. [default: the next free one from 4711]"
)
@click.option("--name", metavar="CMD", default="python", show_default=True, help="Name of the program.")
def hold(file: str, gpu: int, start: int | None, pid: int | None, name: str) -> None:
    """Let a process use a slice of the machine in FILE.

    \b
    Examples:
      mig-manager sim hold box.sim --gpu 0 --start 4
      mig-manager sim hold box.sim --gpu 1 --start 0 --pid 99 --name trainer
    """
    machine = open_simulated(file)
    with bad_input(file):
        client = machine.hold(gpu, start=start, pid=pid, name=name)
    where = "the whole GPU" if start is None else f"the slice at {start}"
    click.echo(f"pid {client.pid} ({client.name}) uses {where} of GPU {gpu}")


@click.command(context_settings=CONTEXT)
@file_argument
@click.option("--gpu", type=int, help="Index of the GPU. [default: every GPU]")
@click.option("--start", type=int, help="Memory unit at which the slice begins. [default: every slice]")
@click.option("--pid", type=int, help="Process id. [default: every process]")
def free(file: str, gpu: int | None, start: int | None, pid: int | None) -> None:
    """End the processes on the machine in FILE that fit everything said.

    \b
    Examples:
      mig-manager sim free box.sim --gpu 0 --start 4
      mig-manager sim free box.sim --pid 4711
    """
    if start is not None and gpu is None:
        raise click.UsageError("--start needs --gpu; slices are counted on one GPU")
    machine = open_simulated(file)
    with bad_input(file):
        ended = machine.free(gpu, start=start, pid=pid)
    click.echo("ended: " + ", ".join(f"pid {client.pid} ({client.name})" for client in ended))
