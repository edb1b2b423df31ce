"""``mig-manager sim``: simulated machines, and what people, programs and power cuts do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mig_manager.cli.exits import bad_input
from mig_manager.cli.group import CONTEXT, LazyGroup

if TYPE_CHECKING:
    from mig_manager.sim.model.machine import Machine

file_argument = click.argument("file", metavar="FILE")

_VERBS = {
    "create": ("mig_manager.cli.sim_create", "Make a simulated machine."),
    "show": ("mig_manager.cli.sim_show", "Draw a simulated machine, with its faults."),
    "hold": ("mig_manager.cli.sim_use", "Let a process use a slice."),
    "free": ("mig_manager.cli.sim_use", "End processes that use slices."),
    "reset": ("mig_manager.cli.sim_hardware", "Reset a GPU, as nvidia-smi --gpu-reset does."),
    "reboot": ("mig_manager.cli.sim_hardware", "Restart the machine."),
    "library": ("mig_manager.cli.sim_library", "Let any program see a simulated machine."),
    "fault": ("mig_manager.cli.sim_fault", "Let NVML calls fail or take their time."),
}


@click.group(cls=LazyGroup, verbs=_VERBS, context_settings=CONTEXT)
def sim() -> None:
    """Make and change simulated machines.

    A simulated machine is a file. Every other command works on it with --sim FILE, through the same code that works on
    real GPUs. Programs of others see it through a shared library, see mig-manager sim library --help.

    \b
    Examples:
      mig-manager sim create box.sim --gpu 'A100-SXM4-80GB*2' --gpu A30 --mig
      mig-manager sim hold box.sim --gpu 0 --start 4
      mig-manager sim reboot box.sim
      mig-manager sim fault box.sim --function nvmlGpuInstanceDestroy --code IN_USE --call 2
      eval "$(mig-manager sim library box.sim)"
    """


def open_simulated(file: str) -> Machine:
    """The machine in that file; a missing or damaged one is bad input."""
    from mig_manager.sim.model.machine import Machine

    with bad_input():
        return Machine.open(file)
