"""The program ``mig-manager``, also ``kubectl mig-manager`` and ``python -m mig_manager``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mig_manager.cli.exits import EXIT_CODES
from mig_manager.cli.group import CONTEXT, Program

_VERBS = {
    "plan": ("mig_manager.cli.plan", "Show what a layout would keep, create and destroy."),
    "apply": ("mig_manager.cli.apply", "Cut the GPUs of a machine as a layout says."),
    "inspect": ("mig_manager.cli.inspect", "Draw a machine: its GPUs, slices and who uses them."),
    "export": ("mig_manager.cli.export", "Write down the present state of a machine."),
    "profiles": ("mig_manager.cli.profiles", "List products, layouts and what a GPU can be cut into."),
    "validate": ("mig_manager.cli.validate", "Check files without a cluster."),
    "sim": ("mig_manager.cli.sim", "Make and change simulated machines."),
    "agent": ("mig_manager.cli.agent", "Run the agent of a node."),
    "controller": ("mig_manager.cli.controller", "Run the controller of a cluster."),
    "cleanup": ("mig_manager.cli.cleanup", "Clean up a node whose agent is gone for good."),
    "demo": ("mig_manager.cli.demo", "Show the whole product on a simulated cluster."),
    "completion": ("mig_manager.cli.completion", "Print the completion script for a shell."),
}

_HELP = f"""Partition NVIDIA GPUs with MIG.

A machine is the one the command runs on (through NVML), a simulated one (--sim FILE), one that was exported
(--from FILE), or one that exists on paper only (--gpu MODEL).

\b
Examples:
  mig-manager plan --gpu 'A100-SXM4-80GB*8' --profile all-balanced
  mig-manager sim create box.sim --gpu 'A100-SXM4-80GB*2' --mig
  mig-manager apply --sim box.sim --profile all-1g.10gb
  mig-manager inspect --sim box.sim

{EXIT_CODES}
"""


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"mig-manager {version('mig-manager')}")
        ctx.exit()


@click.group(cls=Program, name="mig-manager", verbs=_VERBS, help=_HELP, context_settings=CONTEXT)
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Print the version and exit."
)
def program() -> None:
    """Run one of the verbs."""


def main() -> None:
    """Entry point of the console scripts; kubectl finds the plug-in by the second name."""
    plugin = Path(sys.argv[0]).name == "kubectl-mig_manager"
    program.main(prog_name="kubectl mig-manager" if plugin else "mig-manager")
