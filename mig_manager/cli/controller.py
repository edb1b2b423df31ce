"""The verb ``controller``: the process that decides about the whole fleet."""

from __future__ import annotations

from pathlib import Path

import click

from mig_manager.cli.exits import CommandError
from mig_manager.cli.group import CONTEXT
from mig_manager.controller.settings import AGENT_SELECTOR, Settings

_HELP = """Run the controller of a cluster.

It gives every node of a MIGConfig its layout, a few at a time, and writes into the MIGConfig how far the pool has come.
One controller works at a time; others wait for its Lease.

\b
Examples:
  mig-manager controller --namespace mig-manager
  mig-manager controller --kubeconfig ~/.kube/config --agent-selector ''
"""


@click.command(help=_HELP, context_settings=CONTEXT)
@click.option(
    "--namespace", envvar="POD_NAMESPACE", default="mig-manager", show_default=True, help="Where the Lease is kept."
)
@click.option(
    "--agent-selector",
    envvar="AGENT_SELECTOR",
    default=AGENT_SELECTOR,
    show_default=True,
    help="Labels of the agents' pods; empty if agents do not run as pods.",
)
@click.option(
    "--liveness-port", envvar="LIVENESS_PORT", type=click.IntRange(1, 65535), help="Answer /healthz on this port."
)
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="How to reach the cluster; without it, as a pod of it.",
)
def controller(namespace: str, agent_selector: str, liveness_port: int | None, kubeconfig: Path | None) -> None:
    """Run the controller."""
    import logging
    import os

    from mig_manager.controller.handlers import run
    from mig_manager.kube.errors import ClusterError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if kubeconfig is not None:
        # kopf reads it from there.
        os.environ["KUBECONFIG"] = str(kubeconfig)
    settings = Settings(namespace=namespace, agent_selector=agent_selector, liveness_port=liveness_port)
    try:
        run(settings, kubeconfig)
    except ClusterError as error:
        raise CommandError(f"{error}; name a kubeconfig with --kubeconfig, or run in a pod") from error
