"""``mig-manager export``: write down the present state of a machine."""

from __future__ import annotations

import click

from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import Source, machine_options
from mig_manager.cli.output import print_document


@click.command(context_settings=CONTEXT)
@machine_options()
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json"]),
    metavar="FORMAT",
    default="yaml",
    show_default=True,
    help="Write yaml or json.",
)
def export(gpus: tuple[str, ...], state: str, simulated: str, form: str) -> None:
    """Write down the present state of a machine: its GPUs, what they can be cut into, their slices and who uses them.

    On any other machine, mig-manager plan --from gives the same plan for it as here.

    \b
    Examples:
      mig-manager export > node7.yaml
      mig-manager export --sim box.sim -o json
      mig-manager plan --from node7.yaml --profile all-balanced
    """
    from mig_manager.cli.state_document import machine_document

    view = Source(gpus, state, simulated).view()
    print_document(machine_document(view.cards, view.holders), form)
