"""The verb ``cleanup``: take off a Node what an agent that is gone has left there."""

from __future__ import annotations

from pathlib import Path

import click

from mig_manager.cli.exits import BAD_INPUT, CommandError
from mig_manager.cli.group import CONTEXT
from mig_manager.controller.settings import AGENT_SELECTOR

_HELP = """Clean up a node whose agent is gone for good.

The agent cleans up itself when its node leaves the pool. Where it was taken away in the middle of something, its
cordon, its pause of GPU clients and its labels stay, and the node keeps counting as taken out. This takes them off,
ends the hold and says so on the MIGNode; a cordon of somebody else stays, and so do the slices on the cards. Refused
while an agent is there.

\b
Examples:
  mig-manager cleanup gpu-node-7 --dry-run
  mig-manager cleanup gpu-node-7
"""


@click.command(help=_HELP, context_settings=CONTEXT)
@click.argument("node")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--namespace", default="mig-manager", show_default=True, help="Where the agents' pods are.")
@click.option("--agent-selector", default=AGENT_SELECTOR, show_default=True, help="Labels of the agents' pods.")
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="How to reach the cluster.",
)
def cleanup(node: str, dry_run: bool, namespace: str, agent_selector: str, kubeconfig: Path | None) -> None:
    """Clean up."""
    from contextlib import closing

    from mig_manager.agent.cleanup import AgentThereError, clean_up, cleanup_of
    from mig_manager.agent.names import MANAGER
    from mig_manager.kube.client import KubernetesCluster
    from mig_manager.kube.errors import ClusterError, ForbiddenError, NotFoundError

    try:
        reached = KubernetesCluster.from_kubeconfig(MANAGER, kubeconfig)
    except ForbiddenError as error:
        raise CommandError(f"{error}; name a kubeconfig with --kubeconfig") from error
    try:
        with closing(reached) as cluster:
            look = cleanup_of if dry_run else clean_up
            found = look(cluster, node, namespace, agent_selector)
    except AgentThereError as error:
        raise CommandError(f"{error}; let it clean up: take the node out of its MIGConfig's nodeSelector") from error
    except NotFoundError as error:
        raise CommandError(str(error), BAD_INPUT) from error
    except ClusterError as error:
        raise CommandError(str(error)) from error
    if not found.words:
        click.echo(f"nothing of an agent is left on Node {node}")
    for words in found.words:
        click.echo(f"{'would be done: ' if dry_run else ''}{words}")
