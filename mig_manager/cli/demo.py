"""The verb ``demo``: the whole product on a simulated cluster on this machine."""

from __future__ import annotations

import click

from mig_manager.cli.exits import CommandError
from mig_manager.cli.group import CONTEXT

_HELP = """Show the whole product on this machine, without a GPU.

A real Kubernetes control plane is started with four simulated GPU nodes, with the controller and an agent per node.
A MIGConfig cuts them, a label gives one node another profile, another node reboots; what is claimed on the way is
checked. The first run builds the control plane, which takes about ten minutes. Nothing is left behind.

\b
Examples:
  mig-manager demo
  mig-manager demo --keep
  mig-manager demo --no-story
"""


@click.command(help=_HELP, context_settings=CONTEXT)
@click.option("--keep", is_flag=True, help="Go on running at the end, until Ctrl-C, to try things by hand.")
@click.option("--no-story", is_flag=True, help="Only start everything, and keep it running.")
def demo(keep: bool, no_story: bool) -> None:
    """Run the demo."""
    import os
    import signal

    # gRPC's own messages, about connections that end as they should, would be in the middle of the story.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from mig_manager.sim.controlplane.errors import ControlPlaneError
    from mig_manager.sim.demo.errors import DemoError
    from mig_manager.sim.demo.run import run

    # Ending by SIGTERM tidies up as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(story=not no_story, keep=keep or no_story)
    except (ControlPlaneError, DemoError) as error:
        raise CommandError(str(error)) from error
