"""``mig-manager sim show``."""

from __future__ import annotations

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.inspect import show_view, view_document
from mig_manager.cli.machines import open_machine
from mig_manager.cli.output import output_option, print_document
from mig_manager.cli.sim import file_argument, open_simulated
from mig_manager.cli.sim_fault import fault_lines


@click.command(context_settings=CONTEXT)
@file_argument
@output_option("wide")
def show(file: str, form: str | None) -> None:
    """Draw the machine in FILE, with the faults that are set. Reading it meets those faults too.

    \b
    Example:
      mig-manager sim show box.sim -o wide
    """
    with open_machine(file) as machine:
        view = machine.view()
    with bad_input():
        faults = open_simulated(file).read().faults
    if form in ("json", "yaml"):
        print_document({**view_document(view), "faults": [vars(fault) for fault in faults]}, form)
        return
    show_view(view, form)
    if faults:
        click.echo("\n".join(["", *fault_lines(faults)]))
