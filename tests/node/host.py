"""The first process of a real node: it makes the node's own view of the machine, then runs containerd and kubelet.

``python -m tests.node.host FILE``: the file is a ``HostConfig`` as JSON. Whichever of the two ends is started again, as
an init system does. What survives a reboot is in the node's directory; ``/run`` and all processes are new each time.

What mattered: the kubelet rewrites sysctls that are the whole machine's, so files stand over them; its root directory
must be at /var/lib/kubelet, because device plugins look for it there; and where CAP_SYS_RESOURCE is missing,
containerd must not lower the OOM score of anything.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mig_manager.sim.model.machine import Machine
from tests.node import cgroups, numa
from tests.node.room import ROOM, run

KUBELET_ROOT = Path("/var/lib/kubelet")
HARDWARE = Path("/var/lib/simulated-gpus")
"""Where pods of the node find the simulated cards."""

MACHINE = HARDWARE / "machine.sim"

REBOOT = signal.SIGRTMIN + 5
"""What starts reboot.target (systemd(1), "Signals")."""

_OVERLAID = ("/var", "/etc", "/opt")
_SYSCTLS = {"kernel/panic": "10", "kernel/panic_on_oops": "1", "vm/overcommit_memory": "1", "vm/panic_on_oom": "0"}
_RESTART_S = 0.5
_DRIVER_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What one node is made of.

    ``images`` are docker archives, ``labels`` what the kubelet registers with,
    as are ``taints``, written as kubectl does. ``numa_nodes`` is how many it sees.
    """

    name: str
    directory: str
    address: str
    gateway: str
    pod_subnet: str
    boot_id: str
    kubelet: str
    kubeconfig: str
    authority: str
    cni: str
    images: list[str]
    sandbox_image: str
    labels: dict[str, str]
    taints: list[str]
    topology_policy: str
    numa_nodes: int

    def save(self) -> Path:
        """Write it to the node's directory."""
        file = Path(self.directory) / "host.json"
        file.write_text(json.dumps(asdict(self)))
        return file


class Host:
    """The node from within."""

    def __init__(self, config: HostConfig) -> None:
        self._config = config
        self._directory = Path(config.directory)
        self._socket = self._directory / "run" / "containerd.sock"
        self._running: dict[int, str] = {}

    def boot(self) -> None:
        """Make everything ready for containerd and kubelet."""
        run("hostname", self._config.name)
        run("mount", "--make-rshared", "/")
        # Asked before /sys is another one.
        hierarchies = list(cgroups.hierarchies())
        self._mount_file_systems()
        self._mount_control_groups(hierarchies)
        self._hide_sysctls()
        numa.pretend(self._config.numa_nodes, self._directory / "run" / "numa")
        self._connect()
        self._write_configuration()

    def run(self) -> None:
        """Start the programs, and again whatever of them ends."""
        threading.Thread(target=self._drive, name="driver", daemon=True).start()
        self._start("containerd")
        self._import_images()
        self._start("kubelet")
        while True:
            pid, _ = os.wait()
            name = self._running.pop(pid, "")
            if name:
                time.sleep(_RESTART_S)
                self._start(name)

    def _drive(self) -> None:
        """Do what the driver does when a process ends, however it ends: it uses no card any more."""
        machine = Machine.open(MACHINE)
        while True:
            time.sleep(_DRIVER_POLL_S)
            clients = {client.pid for card in machine.read().cards for client in card.clients}
            dead = {pid for pid in clients if not Path(f"/proc/{pid}").exists()}
            if dead:
                with machine.change() as state:
                    for card in state.cards:
                        card.clients = [client for client in card.clients if client.pid not in dead]

    def _mount_file_systems(self) -> None:
        run("mount", "-t", "sysfs", "sysfs", "/sys")
        for below in _OVERLAID:
            layers = self._directory / "overlay" / below.lstrip("/")
            for layer in ("upper", "work"):
                (layers / layer).mkdir(parents=True, exist_ok=True)
            options = f"lowerdir={below},upperdir={layers / 'upper'},workdir={layers / 'work'}"
            run("mount", "-t", "overlay", "-o", options, "overlay", below)
        # A /run of its own, in which the room's directory is where it was.
        fresh = self._directory / "run"
        fresh.mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "run", str(fresh))
        for name in ("room", "netns", "lock"):
            (fresh / name).mkdir()
        run("mount", "--bind", str(ROOM), str(fresh / "room"))
        run("mount", "--rbind", str(fresh), "/run")
        for name, place in (("kubelet", KUBELET_ROOT), ("hardware", HARDWARE), ("pods", Path("/var/log/pods"))):
            source = self._directory / name
            source.mkdir(exist_ok=True)
            place.mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", str(source), str(place))
        run("mount", "--make-rshared", str(KUBELET_ROOT))

    def _mount_control_groups(self, names: Sequence[str]) -> None:
        root = cgroups.ROOT
        run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", str(root))
        for name in names:
            place = root / name.removeprefix("name=")
            place.mkdir()
            options = f"none,{name}" if name == cgroups.SYSTEMD else name
            run("mount", "-t", "cgroup", "-o", options, "cgroup", str(place))

    def _hide_sysctls(self) -> None:
        boot_id = {"kernel/random/boot_id": self._config.boot_id}
        for name, value in {**_SYSCTLS, **boot_id}.items():
            file = self._directory / "run" / name.replace("/", ".")
            file.write_text(f"{value}\n")
            run("mount", "--bind", str(file), f"/proc/sys/{name}")

    def _connect(self) -> None:
        # The other side of the network puts the interface here.
        while not Path("/sys/class/net/eth0").exists():
            time.sleep(0.02)
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{self._config.address}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", self._config.gateway)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _write_configuration(self) -> None:
        cni = self._directory / "cni"
        cni.mkdir(exist_ok=True)
        (cni / "10-pods.conflist").write_text(json.dumps(self._network()))
        (self._directory / "containerd.toml").write_text(self._containerd())
        (self._directory / "kubelet.json").write_text(json.dumps(self._kubelet()))

    def _network(self) -> dict[str, object]:
        addresses = {
            "type": "host-local",
            "dataDir": str(self._directory / "run" / "addresses"),
            "ranges": [[{"subnet": self._config.pod_subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}

    def _containerd(self) -> str:
        return f"""
version = 2
root = "{self._directory / "containerd"}"
state = "{self._directory / "run" / "containerd"}"
[grpc]
  address = "{self._socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{self._config.sandbox_image}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self._config.cni}"
    conf_dir = "{self._directory / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._config.address,
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "resolvConf": "",
            "clusterDomain": "cluster.local",
            "authentication": {
                "anonymous": {"enabled": False},
                "x509": {"clientCAFile": self._config.authority},
            },
            "nodeStatusUpdateFrequency": "2s",
            "topologyManagerPolicy": self._config.topology_policy,
            "evictionHard": {"memory.available": "100Mi"},
            "imageMinimumGCAge": "24h",
            "imageGCHighThresholdPercent": 100,
            # What a test has killed is started again after 2 s, not after 10, and not ever later.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        }

    def _start(self, name: str) -> None:
        labels = ",".join(f"{key}={value}" for key, value in self._config.labels.items())
        commands = {
            "containerd": ["containerd", "--config", str(self._directory / "containerd.toml")],
            "kubelet": [
                self._config.kubelet,
                f"--config={self._directory / 'kubelet.json'}",
                f"--kubeconfig={self._config.kubeconfig}",
                f"--hostname-override={self._config.name}",
                f"--node-ip={self._config.address}",
                f"--node-labels={labels}",
                f"--register-with-taints={','.join(self._config.taints)}",
                f"--root-dir={KUBELET_ROOT}",
                "--v=2",
            ],
        }
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(commands[name], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._running[process.pid] = name

    def _import_images(self) -> None:
        ctr = ["ctr", "--address", str(self._socket), "--namespace", "k8s.io"]
        while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode:
            time.sleep(0.05)
        done = self._directory / "images-imported"
        if done.exists():
            return
        with (self._directory / "import.log").open("ab") as log:
            for image in self._config.images:
                subprocess.run([*ctr, "images", "import", image], stdout=log, stderr=log, check=True)
        done.touch()


def main(arguments: list[str]) -> None:
    """Be the node until somebody ends it, or asks it to reboot in systemd's way; then the power comes from outside."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(REBOOT, lambda *_: sys.exit())
    host = Host(HostConfig(**json.loads(Path(arguments[0]).read_text())))
    host.boot()
    host.run()


if __name__ == "__main__":
    main(sys.argv[1:])
