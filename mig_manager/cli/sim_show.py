"""``mig-manager sim show``."""

from __future__ import annotations

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.inspect import show_view
from mig_manager.cli.machines import open_machine
from mig_manager.cli.output import output_option
from mig_manager.cli.sim import file_argument
from mig_manager.cli.sim_fault import fault_lines


@click.command
@file_argument
@output_option("wide")
def show(file: str, form: str | None) -> None:
    """Draw the machine in FILE, with the faults that are set. Reading it meets those faults too.

    \b
    Example:
      mig-manager sim show box.sim -o wide
    """
    with open_machine(file) as machine:
        show_view(machine.view(), form)
        if form in ("json", "yaml") or machine.simulated is None:
            return
        with bad_input():
            faults = machine.simulated.read().faults
    if faults:
        click.echo("\n".join(["", *fault_lines(faults)]))
