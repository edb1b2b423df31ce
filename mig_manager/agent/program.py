"""The agent process put together: real ports, or those of a simulated machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mig_manager.agent.agent import Agent
from mig_manager.agent.clients import load_clients
from mig_manager.agent.context import Ports, Settings
from mig_manager.agent.device_files import DeviceFiles
from mig_manager.agent.mailbox import Mailbox
from mig_manager.agent.reboot import RebootCommand, read_boot_id
from mig_manager.agent.worker import Worker
from mig_manager.gpu.holders import FindUsers, find_users
from mig_manager.gpu.journal import Journal
from mig_manager.gpu.library import Library
from mig_manager.gpu.lock import HostLock
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.proc import ProcTree
from mig_manager.gpu.reset import NvidiaSmiReset, Reset
from mig_manager.kube.podresources.client import PodResources
from mig_manager.kube.port import Cluster

JOURNAL = "journal.json"
LOCK = "lock"


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The present, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Options:
    """What the process is told. ``library`` is NVML's path where it is not to be looked for."""

    node: str
    lease: str
    lease_namespace: str
    state_dir: Path
    pod_resources: Path
    driver_root: Path = Path("/")
    library: Path | None = None
    clients: Path | None = None
    reboot_command: tuple[str, ...] = ()
    advertise_timeout_s: float = 300.0
    maintenance_leases: str = ""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Who uses the cards, how they are reset, and how device files are made: of this machine, or of a simulated one.

    ``boot_id`` names the machine's present boot.
    """

    users: FindUsers
    reset: Reset
    device_files: Callable[[], None]
    boot_id: Callable[[], str]


def real_hardware(options: Options, proc_root: Path) -> Hardware:
    """This machine's; tools below a driver root are run there, and ``proc_root`` shows the host's processes."""
    root = options.driver_root
    return Hardware(find_users(ProcTree(proc_root)), NvidiaSmiReset(root), DeviceFiles(root), read_boot_id)


def build(options: Options, cluster: Cluster, hardware: Hardware, closing: ExitStack) -> Worker:
    """A worker that can be started. ClientsError when the list of GPU clients cannot be used."""
    settings = Settings(
        node=options.node,
        clients=load_clients(options.clients),
        lease=options.lease,
        lease_namespace=options.lease_namespace,
        maintenance_leases=options.maintenance_leases,
        advertise_timeout_s=options.advertise_timeout_s,
    )
    ports = Ports(
        cluster=cluster,
        gpus=NvmlGpus(Library(options.library)),
        pod_resources=closing.enter_context(PodResources(options.pod_resources)),
        journal=Journal(options.state_dir / JOURNAL),
        clock=SystemClock(),
        users=hardware.users,
        reset=hardware.reset,
        device_files=hardware.device_files,
        boot_id=hardware.boot_id,
        reboot=RebootCommand(options.reboot_command) if options.reboot_command else None,
    )
    agent = Agent(ports, settings)
    return Worker(agent, Mailbox(), lambda: HostLock(options.state_dir / LOCK), time.monotonic)
