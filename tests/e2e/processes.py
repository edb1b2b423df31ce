"""The real programs as processes: started, killed, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from mig_manager.sim.controlplane.access import Access
from tests.e2e.proxy import Gate, Proxy, Request

TAIL_LINES = 60


class Process:
    """One program of the product. All its requests go through a proxy of its own; its log grows from start to start.

    ``kubeconfig`` is asked at every start, as a pod's token may be another by then. While ``proxied`` is false, a start
    leads straight to the API server, by TLS as on a real cluster: what it costs is measured that way. ``options`` are
    given beside the arguments.
    """

    def __init__(
        self, name: str, access: Access, log: Path, kubeconfig: Callable[[], Path], arguments: Sequence[str]
    ) -> None:
        self.name = name
        self.proxied = True
        self.program: Sequence[str] = ("-m", "mig_manager")
        self.options: Sequence[str] = ()
        self.log = log
        self.proxy = Proxy(access)
        self._kubeconfig = kubeconfig
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self.proxy.__exit__(kind, value, at)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def ended_by_itself(self) -> bool:
        """Whether it was started and is gone, and nobody has ended it."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """The number of its process, which must have been started."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it; it must not be running."""
        assert not self.running, f"{self.name} runs already"
        given = self._kubeconfig()
        kubeconfig = self.proxy.kubeconfig(given) if self.proxied else given
        command = [sys.executable, *self.program, *self._arguments, *self.options]
        command += ["--kubeconfig", str(kubeconfig)]
        environment = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "COVERAGE_PROCESS_START")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def hold(self, meant: Callable[[Request], bool], *, after: bool) -> Gate:
        """Hold the first request from now on of which ``meant`` is true."""
        return self.proxy.hold(meant, after=after)

    def kill(self) -> None:
        """SIGKILL. What it had asked and the server has not seen yet, the server will never see."""
        self._end(signal.SIGKILL)
        self.proxy.forget_held()

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended."""
        self._end(signal.SIGTERM)

    def tail(self) -> str:
        """The end of its log."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.name} ---", *lines[-TAIL_LINES:]])

    def complaints(self, start: int = 0) -> list[str]:
        """Lines of its log, from a byte on, that no program of ours should ever write."""
        text = self.log.read_bytes()[start:].decode() if self.log.exists() else ""
        return [line for line in text.splitlines() if "Traceback" in line or "forbidden" in line.lower()]

    def log_size(self) -> int:
        """How long its log is, in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(with_signal)
            self._process.wait(60)
            self._process = None
