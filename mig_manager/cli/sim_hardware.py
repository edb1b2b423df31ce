"""``mig-manager sim reset`` and ``sim reboot``."""

from __future__ import annotations

import click

from mig_manager.cli.exits import failures
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.sim import file_argument, open_simulated


@click.command(context_settings=CONTEXT)
@file_argument
@click.option("--gpu", type=int, required=True, help="Index of the GPU.")
def reset(file: str, gpu: int) -> None:
    """Reset a GPU of the machine in FILE, with the GPUs that are reset together with it. Refused while it is used.

    A pending MIG mode becomes current, and slices are lost.

    \b
    Example:
      mig-manager sim reset box.sim --gpu 0
    """
    machine = open_simulated(file)
    with failures():
        uuids = machine.reset(gpu)
    indices = [str(i) for i, card in enumerate(machine.read().cards) if card.uuid in uuids]
    click.echo(f"GPU {', '.join(indices)}: reset")


@click.command(context_settings=CONTEXT)
@file_argument
def reboot(file: str) -> None:
    """Restart the machine in FILE: processes and slices are gone; MIG mode stays on Ampere and is off on newer GPUs.

    \b
    Example:
      mig-manager sim reboot box.sim
    """
    machine = open_simulated(file)
    with failures():
        machine.reboot()
    click.echo(f"{file}: restarted; slices and processes are gone")
