"""A real node from outside: start it, pull its plug, kill its kubelet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.model.finding import hardware_name
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.processes import DeviceGoneError, find_device
from mig_manager.sim.node.topology import TopologyPolicy
from tests.node import cgroups
from tests.node.enter import cni_directory, unshare_command
from tests.node.host import HostConfig
from tests.node.images import SANDBOX_IMAGE
from tests.node.room import BRIDGE, GATEWAY, ROOM, run

TAIL_LINES = 12


class RealNode:
    """The node number ``index`` (from 1) of the room, with simulated cards of the models ``gpus``.

    ``taints`` are what it registers with, as kubectl writes them. ``numa`` is the NUMA node of each card; then the
    kubelet keeps the devices of a container on one.
    """

    def __init__(  # noqa: PLR0913 - keywords that describe a node
        self,
        index: int,
        access: Access,
        programs: Programs,
        images: list[Path],
        labels: Mapping[str, str],
        *gpus: str,
        taints: Sequence[str] = (),
        numa: Sequence[int] = (),
    ) -> None:
        self.name = f"real{index}"
        self.directory = ROOM / "nodes" / self.name
        (self.directory / "hardware").mkdir(parents=True)
        self.machine = Machine.create(
            self.directory / "hardware" / "machine.sim", gpus, mig=True, numa=numa, seed=self.name
        )
        self._config = HostConfig(
            name=self.name,
            directory=str(self.directory),
            address=f"10.88.0.{10 + index}",
            gateway=GATEWAY,
            pod_subnet=f"10.{88 + index}.0.0/24",
            boot_id=self.machine.read().boot_id,
            kubelet=str(programs.path("kubelet")),
            kubeconfig=str(access.kubeconfig_for(f"system:node:{self.name}", ("system:nodes",))),
            authority=str(access.authority),
            cni=str(cni_directory()),
            images=[str(image) for image in images],
            sandbox_image=SANDBOX_IMAGE,
            labels=dict(labels),
            taints=list(taints),
            topology_policy=TopologyPolicy.SINGLE_NUMA_NODE if numa else TopologyPolicy.NONE,
            numa_nodes=max(numa) + 1 if numa else 0,
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pod_resources(self) -> Path:
        """The kubelet's PodResources socket."""
        return self.directory / "kubelet" / "pod-resources" / "kubelet.sock"

    def kubelet_socket(self) -> tuple[int, int] | None:
        """What tells the socket at which device plugins register from its successor; ``None`` while there is none."""
        try:
            stat = (self.directory / "kubelet" / "device-plugins" / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_ctime_ns

    def start(self) -> None:
        """Boot; it registers by itself."""
        cgroups.create(self.name)
        file = self._config.save()
        with (self.directory / "host.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*unshare_command(), "--cgroup", sys.executable, "-m", "tests.node.host", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: cgroups.join(self.name),  # noqa: PLW1509 - it only writes files
            )
        self._connect(self._process.pid)

    @property
    def is_off(self) -> bool:
        """Whether the node has ended by itself."""
        return self._process is None or self._process.poll() is not None

    def lose_power(self) -> None:
        """End every process of the node at once."""
        assert self._process is not None, f"{self.name} was not started"
        # Not unshare itself, which waits: a pid namespace's first process is gone when all others are.
        for first in _children(self._process.pid):
            os.kill(first, signal.SIGKILL)
        self._process.wait()
        while not cgroups.remove(self.name):
            time.sleep(0.02)

    def reboot(self) -> None:
        """Lose power and boot again: another boot id, and of the cards' slices only what survives that."""
        self.lose_power()
        self._config = replace(self._config, boot_id=self.machine.reboot())
        self.start()

    def kill(self, *words: str) -> None:
        """SIGKILL the processes of the node whose command lines have all these words in them; there must be one."""
        found = self.processes(*words)
        assert found, f"no process {words} on {self.name}"
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    def read_in_container(self, path: str, *words: str) -> str:
        """A file as the container has it in which such a process runs."""
        (pid,) = self.processes(*words)
        return Path(f"/proc/{pid}/root/{path}").read_text()

    def processes(self, *words: str) -> list[int]:
        """The processes of the node whose command lines have all these words in them."""
        return [pid for pid in self._all_processes() if set(words) <= _words(pid)]

    def groups_of(self, pid: int) -> str:
        """The control groups of a process that the node calls ``pid``; empty when there is none."""
        for outer in self._all_processes():
            with suppress(OSError, StopIteration):
                status = Path(f"/proc/{outer}/status").read_text().splitlines()
                numbers = next(line for line in status if line.startswith("NSpid:")).split()[1:]
                # The room's number for it comes first, the node's second, that in its container last.
                if numbers[1:2] == [str(pid)]:
                    return Path(f"/proc/{outer}/cgroup").read_text()
        return ""

    def counts(self) -> Counter[str]:
        """How many GPU instances of each kind all cards have."""
        return Counter(hardware_name(card, i) for card in self.machine.read().cards for i in card.instances)

    def has(self, *devices: str) -> bool:
        """Whether these devices are there."""
        try:
            for device in devices:
                find_device(self.machine.read(), device)
        except DeviceGoneError:
            return False
        return True

    def tail(self) -> str:
        """The ends of the node's logs, and those of its containers."""
        logs = [self.directory / f"{name}.log" for name in ("host", "containerd", "kubelet", "import")]
        logs += sorted((self.directory / "pods").glob("*/*/*.log"))
        parts = []
        for log in logs:
            if log.exists():
                lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
                parts += [f"--- {log.relative_to(self.directory)} of {self.name} ---", *lines]
        return "\n".join(parts)

    def _connect(self, pid: int) -> None:
        """Lay a cable from the room's bridge to the node."""
        ours = Path("/proc/self/ns/net").stat().st_ino
        while Path(f"/proc/{pid}/ns/net").stat().st_ino == ours:
            time.sleep(0.01)
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", self.name, "master", BRIDGE, "up")
        run("ip", "route", "replace", self._config.pod_subnet, "via", self._config.address)

    def _all_processes(self) -> Iterator[int]:
        """The node's processes, by the room's process ids: those in its control group and below."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    groups = (entry / "cgroup").read_text()
                except OSError:
                    continue
                if any(f"/{self.name}" in line for line in groups.splitlines()):
                    yield int(entry.name)


def _children(pid: int) -> list[int]:
    """The children of a process, none of one that has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _words(pid: int) -> set[str]:
    """The words of a process' command line, and the names of the files among them."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return set()
    return {*words, *(word.rpartition("/")[2] for word in words)}
