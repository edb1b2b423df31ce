"""``mig-manager inspect``: draw a machine."""

from __future__ import annotations

from typing import Any

import click

from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import Source, View, machine_options
from mig_manager.cli.output import look, note, output_option, print_document, print_lines


@click.command(context_settings=CONTEXT)
@machine_options()
@output_option("wide")
def inspect(gpus: tuple[str, ...], state: str, simulated: str, form: str | None) -> None:
    """Draw a machine: its GPUs, their MIG mode, their slices and who uses them.

    \b
    Examples:
      mig-manager inspect
      mig-manager inspect --sim box.sim -o wide
      mig-manager inspect --from node7.yaml -o json
    """
    show_view(Source(gpus, state, simulated).view(), form)


def show_view(view: View, form: str | None) -> None:
    """Print a machine in the form that was asked for."""
    if form in ("json", "yaml"):
        print_document(view_document(view), form)
        return
    from mig_manager.render.machine import machine_lines

    if view.remark:
        note(view.remark)
    shown = look()
    print_lines(machine_lines(view.cards, view.holders, shown, wide=form == "wide"), shown)


def view_document(view: View) -> dict[str, Any]:
    """A machine for programs: as in an exported state, without the profile tables."""
    from mig_manager.cli.state_document import machine_document

    return {"gpus": machine_document(view.cards, view.holders)["gpus"]}
