"""Run etcd, API server, controller manager and scheduler on loopback, and leave nothing behind.

The data is thrown away at the end, so nothing here is tuned to keep it: no fsync, no graceful shutdown.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mig_manager.sim.controlplane import guardian
from mig_manager.sim.controlplane.access import HTTP_OK, Access, Endpoint, wait_until
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.pki import Authority, Pair
from mig_manager.sim.controlplane.programs import Programs

READY_TIMEOUT_S = 120.0
"""It takes 3 to 8 s on two cores; on a machine that is busy with a build it may take much longer."""

READY_POLL_TIMEOUT_S = 1.0
STOP_TIMEOUT_S = 15.0
TAIL_LINES = 15
ATTEMPTS = 3
LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.0.0.0/24"
SERVICE_ADDRESS = "10.0.0.1"


class ControlPlane:
    """A control plane in a temporary directory, running from ``start`` (or ``with``) to ``stop``.

    It also ends, and its directory goes, when the process ``parent_pid`` (this one, unless another is named) dies,
    however it dies. ``crds`` are YAML files of CustomResourceDefinitions that are served from the start. The API server
    listens on loopback at a free port, unless an ``endpoint`` is named, and gets ``api_server_flags`` besides its own.
    """

    def __init__(
        self,
        programs: Programs,
        crds: Sequence[Path] = (),
        parent_pid: int | None = None,
        endpoint: Endpoint | None = None,
        api_server_flags: Sequence[str] = (),
    ) -> None:
        self.programs = programs
        self._api_server_flags = tuple(api_server_flags)
        self._endpoint = endpoint
        self._crds = tuple(crds)
        self._parent_pid = os.getpid() if parent_pid is None else parent_pid
        self._directory: Path | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._access: Access | None = None

    @property
    def access(self) -> Access:
        """How to reach it; only while it runs."""
        if self._access is None:
            raise ControlPlaneError("reaching the control plane: it is not running")
        return self._access

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when it is ready; ControlPlaneError, with the log's last lines, when it fails."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start_once()
            except _PortTakenError:
                # A port was free when it was asked for and is not any more.
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """Kill what was started and remove its files; harmless when nothing runs."""
        process, directory = self._guardian, self._directory
        self._access = self._guardian = self._directory = None
        if process is not None:
            with suppress(BrokenPipeError):
                self._say(process, b"stop")
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # The programs die with the guardian: guardian.py says how.
                process.send_signal(signal.SIGKILL)
                process.wait()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def detach(self) -> Access:
        """Let it run until the process ``parent_pid`` ends, whatever becomes of this one."""
        process, access = self._guardian, self.access
        if process is None or process.stdin is None:
            raise ControlPlaneError("detaching from the control plane: it is not running")
        self._say(process, b"detach")
        process.stdin.close()
        # Popen warns of a child that it still thinks it has to wait for; from here on nobody has to.
        process.returncode = 0
        self._access = self._guardian = self._directory = None
        return access

    def _start_once(self) -> None:
        self._directory = directory = Path(tempfile.mkdtemp(prefix="mig-manager-"))
        self._guardian = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", guardian.__file__, str(directory), str(self._parent_pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in the terminal goes to the whole foreground group; the guardian waits for what we say to it.
            start_new_session=True,
        )
        authority = Authority.create(directory / "pki")
        etcd_port, etcd_peer_port, port = _free_ports(3)
        endpoint = self._endpoint or Endpoint(LOOPBACK, port)
        self._access = access = Access(directory, endpoint, authority)
        self._run("etcd", _etcd(directory, authority, etcd_port, etcd_peer_port))
        keys = authority.service_account_keys()
        self._run("kube-apiserver", self._api_server(directory, authority, keys, etcd_port, endpoint))
        wait_until("the API server to be ready", self._is_ready, READY_TIMEOUT_S, self.check)
        # Before the controller manager: its garbage collector looks for new kinds only every 30 s.
        access.install_crds(self._crds)
        if self.programs.has("kube-controller-manager"):
            kubeconfig = access.kubeconfig_for("system:kube-controller-manager")
            self._run("kube-controller-manager", _controller_manager(authority, keys, kubeconfig))
        if self.programs.has("kube-scheduler"):
            kubeconfig = access.kubeconfig_for("system:kube-scheduler")
            self._run("kube-scheduler", [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false"])
        if self.programs.has("kube-controller-manager"):
            what = "the controller manager to create the default ServiceAccount"
            wait_until(what, self._has_default_account, READY_TIMEOUT_S, self.check)
        access.save()

    def run_beside(self, name: str, argv: Sequence[str]) -> None:
        """Run another program, which ends when the control plane does, however it ends.

        Its output is in ``NAME.log`` in the control plane's directory, and its exit status, once it has ended, in
        ``NAME.exit``.
        """
        self._order({"name": name, "argv": list(argv)})

    def kill(self, name: str) -> None:
        """SIGKILL one of the programs."""
        self._order({"kill": name})

    def end(self, name: str) -> None:
        """SIGKILL one that was run beside, which is then no failure and leaves no exit status."""
        self._order({"end": name})

    def collect(self, name: str) -> bool:
        """Whether a program that was run beside has ended; ``check`` then takes it for a failure no more."""
        ended = self.access.directory / f"{name}.exit"
        there = ended.exists()
        ended.unlink(missing_ok=True)
        return there

    def _run(self, name: str, flags: list[str]) -> None:
        self.run_beside(name, [str(self.programs.path(name)), *flags])

    def _order(self, order: dict[str, Any]) -> None:
        if self._guardian is not None:
            self._say(self._guardian, json.dumps(order).encode())

    @staticmethod
    def _say(process: subprocess.Popen[bytes], line: bytes) -> None:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.write(line + b"\n")
            process.stdin.flush()

    def _is_ready(self) -> bool:
        # While etcd is away the server takes the connection and does not answer: ask again soon, and look meanwhile
        # whether a program has ended.
        return self.access.request("GET", "/readyz", timeout_s=READY_POLL_TIMEOUT_S)[0] == HTTP_OK

    def _has_default_account(self) -> bool:
        return self.access.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == HTTP_OK

    def check(self) -> None:
        """Raise ControlPlaneError, with the last lines of its log, when a program has ended."""
        if self._guardian is None or self._directory is None:
            return
        if self._guardian.poll() is not None:
            raise ControlPlaneError(f"running the control plane: its guardian ended with {self._guardian.returncode}")
        for ended in self._directory.glob("*.exit"):
            name, status = ended.stem, ended.read_text()
            log = (self._directory / f"{name}.log").read_text(errors="replace").splitlines()[-TAIL_LINES:]
            kind = _PortTakenError if any("address already in use" in line for line in log) else ControlPlaneError
            raise kind(f"running {name}: it ended with {status}; the last lines of its log:\n" + "\n".join(log))

    def _api_server(
        self, directory: Path, authority: Authority, keys: Pair, etcd_port: int, endpoint: Endpoint
    ) -> list[str]:
        serving = authority.server("kube-apiserver", (LOOPBACK, SERVICE_ADDRESS))
        etcd_client = authority.client("etcd-client", "kube-apiserver")
        flags = [
            f"--etcd-servers=https://127.0.0.1:{etcd_port}",
            f"--etcd-cafile={authority.pair.certificate}",
            f"--etcd-certfile={etcd_client.certificate}",
            f"--etcd-keyfile={etcd_client.key}",
            f"--bind-address={endpoint.address}",
            f"--secure-port={endpoint.port}",
            # The server refuses to publish a loopback address as the endpoint of the kubernetes Service; without the
            # reconciler it does not try.
            f"--advertise-address={endpoint.address}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.pair.certificate}",
            f"--cert-dir={directory / 'certs'}",
            f"--service-account-key-file={keys.certificate}",
            f"--service-account-signing-key-file={keys.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--profiling=false",
            *self._api_server_flags,
        ]
        if not self.programs.has("kube-controller-manager"):
            # Nobody creates the default ServiceAccount, without which this plugin refuses every pod.
            flags.append("--disable-admission-plugins=ServiceAccount")
        return flags


class _PortTakenError(ControlPlaneError):
    """A program found its port in use."""


def _etcd(directory: Path, authority: Authority, port: int, peer_port: int) -> list[str]:
    serving = authority.server("etcd", ("127.0.0.1",))
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls=https://127.0.0.1:{port}",
        f"--advertise-client-urls=https://127.0.0.1:{port}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # Without client certificates everybody on the machine could write to the cluster past the API server.
        f"--cert-file={serving.certificate}",
        f"--key-file={serving.key}",
        f"--trusted-ca-file={authority.pair.certificate}",
        "--client-cert-auth",
        # The JSON gateway is a client of etcd itself and would present the serving certificate.
        "--enable-grpc-gateway=false",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _controller_manager(authority: Authority, keys: Pair, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
        f"--service-account-private-key-file={keys.key}",
        f"--root-ca-file={authority.pair.certificate}",
        f"--cluster-signing-cert-file={authority.pair.certificate}",
        f"--cluster-signing-key-file={authority.pair.key}",
        "--use-service-account-credentials=true",
        # Simulated nodes send no heartbeats.
        "--node-monitor-grace-period=10h",
        # The default of 20 requests a second delays the default ServiceAccount by 5 s.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _free_ports(count: int) -> list[int]:
    """Distinct loopback ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
