"""The verb ``agent``: the process that cuts the GPUs of one node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mig_manager.cli.exits import BAD_INPUT, CommandError
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import open_machine

if TYPE_CHECKING:
    from mig_manager.agent.program import Hardware, Options

_HELP = """Run the agent of this node.

It turns the layout that the controller grants into slices: drains what must go and nothing else, cuts, restarts the GPU
clients, and waits until the kubelet offers exactly the new slices.

\b
Examples:
  mig-manager agent --node $(hostname)
  mig-manager agent --node n1 --sim box.sim --kubeconfig ~/.kube/config --state-dir ./n1
"""


def _words(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    """The words of a command line, quoted as in a shell."""
    import shlex

    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}") from error


_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(help=_HELP, context_settings=CONTEXT)
@click.option("--node", envvar="NODE_NAME", required=True, help="The name of this host's Node.")
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default="mig-manager",
    show_default=True,
    help="Where the controller's Lease is.",
)
@click.option(
    "--lease", envvar="LEASE_NAME", default="mig-manager-controller", show_default=True, help="The controller's Lease."
)
@click.option(
    "--state-dir",
    envvar="STATE_DIR",
    type=_DIRECTORY,
    default=Path("/var/lib/mig-manager"),
    show_default=True,
    help="Where journal and lock are kept; it must survive a reboot.",
)
@click.option(
    "--pod-resources",
    envvar="POD_RESOURCES_SOCKET",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
    show_default=True,
    help="The kubelet's PodResources socket.",
)
@click.option(
    "--driver-root",
    envvar="NVIDIA_DRIVER_ROOT",
    type=_DIRECTORY,
    default=Path("/"),
    show_default=True,
    help="Where the driver's root file system is mounted.",
)
@click.option(
    "--proc-root",
    envvar="PROC_ROOT",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the host's /proc is mounted, with its process ids. [default: /proc]",
)
@click.option("--nvml", envvar="NVML_LIBRARY", type=click.Path(path_type=Path), help="The path of libnvidia-ml.so.1.")
@click.option("--clients", envvar="GPU_CLIENTS", type=_FILE, help="GPU clients that are not on the shipped list.")
@click.option(
    "--reboot-command",
    envvar="REBOOT_COMMAND",
    metavar="COMMAND",
    default="",
    callback=_words,
    help="How to reboot this host, where a change of MIG mode takes that and maxImpact allows it; without it, never.",
)
@click.option(
    "--advertise-timeout",
    "advertise_timeout_s",
    envvar="ADVERTISE_TIMEOUT",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the kubelet to offer the new slices.",
)
@click.option(
    "--maintenance-leases",
    envvar="MAINTENANCE_LEASES",
    metavar="NAMESPACE",
    default="",
    help="Where other tools reserve nodes by Leases named node-NAME, as those of medik8s do.",
)
@click.option("--liveness-port", envvar="LIVENESS_PORT", type=click.IntRange(1, 65535), help="Answer /healthz there.")
@click.option("--kubeconfig", envvar="KUBECONFIG", type=_FILE, help="How to reach the cluster; without it, as a pod.")
@click.option("--sim", "simulated", metavar="FILE", default="", help="Work on a simulated machine.")
def agent(
    node: str,
    namespace: str,
    lease: str,
    state_dir: Path,
    pod_resources: Path,
    driver_root: Path,
    proc_root: Path | None,
    nvml: Path | None,
    clients: Path | None,
    reboot_command: tuple[str, ...],
    advertise_timeout_s: float,
    maintenance_leases: str,
    liveness_port: int | None,
    kubeconfig: Path | None,
    simulated: str,
) -> None:
    """Run the agent."""
    import logging

    from mig_manager.agent.program import Options, real_hardware

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = Options(
        node=node,
        lease=lease,
        lease_namespace=namespace,
        state_dir=state_dir,
        pod_resources=pod_resources,
        driver_root=driver_root,
        library=nvml,
        clients=clients,
        reboot_command=reboot_command,
        advertise_timeout_s=advertise_timeout_s,
        maintenance_leases=maintenance_leases,
    )
    if not simulated:
        _run(options, real_hardware(options, proc_root or Path("/proc")), kubeconfig, liveness_port)
        return
    with open_machine(simulated, proc_root) as machine:
        from mig_manager.agent.program import Hardware

        hardware = Hardware(machine.find_users, machine.reset, _no_files, machine.boot_id)
        _run(options, hardware, kubeconfig, liveness_port)


def _run(options: Options, hardware: Hardware, kubeconfig: Path | None, liveness_port: int | None) -> None:
    import os
    from contextlib import ExitStack

    from mig_manager.agent.clients import ClientsError
    from mig_manager.agent.handlers import cluster_for, run
    from mig_manager.agent.program import build
    from mig_manager.kube.errors import ClusterError

    if kubeconfig is not None:
        # kopf reads it from there.
        os.environ["KUBECONFIG"] = str(kubeconfig)
    with ExitStack() as closing:
        try:
            worker = build(options, cluster_for(kubeconfig), hardware, closing)
        except ClientsError as error:
            raise CommandError(str(error), BAD_INPUT) from error
        except ClusterError as error:
            raise CommandError(f"{error}; name a kubeconfig with --kubeconfig, or run in a pod") from error
        run(worker, options.node, kubeconfig, liveness_port)


def _no_files() -> None:
    """A simulated machine has no device files."""
