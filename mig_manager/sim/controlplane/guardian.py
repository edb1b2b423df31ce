"""The process between a control plane and whoever started it: it outlives its parent just long enough to tidy up.

Run by path with the standard library alone: ``guardian.py DIRECTORY PARENT_PID``. Each line on standard input is a JSON
object: ``{"name", "argv"}`` is a program to start, its output in ``DIRECTORY/NAME.log``; ``{"kill"}`` names one to
kill. When a program ends, its exit status is written to ``DIRECTORY/NAME.exit``, unless ``{"end"}`` was to end it. On
the line ``stop``, at the end of the input unless the line ``detach`` came before, and when the process PARENT_PID is
gone, the guardian kills what it started, removes DIRECTORY and ends.

Why a process and not a signal at the parent's death in each program: somebody must also remove the directory, and the
kernel ties that signal to the parent's *thread*. Here there is one thread, so the programs can carry it, and die
even if the guardian itself is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: the signal that a process gets when its parent thread dies."""

POLL_S = 0.2
"""How often a dead parent or a dead program is looked for; it bounds how long the programs outlive the parent."""

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_guardian() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Guardian:
    """The programs of one directory, and the promise that nothing of them stays."""

    def __init__(self, directory: Path, parent_pid: int) -> None:
        self.directory = directory
        self.parent = _Process(parent_pid)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Obey the lines on standard input until it is time to stop."""
        buffer, listening, detached = b"", True, False
        while self.parent.alive():
            if listening and select.select([0], [], [], POLL_S)[0]:
                chunk = os.read(0, 65536)
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    if line == b"stop":
                        return
                    if line == b"detach":
                        detached = True
                    else:
                        self._obey(json.loads(line))
                if not chunk:
                    if not detached:
                        return
                    listening = False
            elif not listening:
                select.select([], [], [], POLL_S)
            self._reap()

    def _obey(self, order: dict[str, Any]) -> None:
        if "end" in order:
            process = self.running.pop(order["end"], None)
            if process is not None:
                process.kill()
                process.wait()
        elif "kill" not in order:
            self._start(**order)
        elif order["kill"] in self.running:
            self.running[order["kill"]].kill()
            self.running[order["kill"]].wait()

    def _start(self, name: str, argv: list[str]) -> None:
        (self.directory / f"{name}.exit").unlink(missing_ok=True)
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - the runner's own command line
                argv,
                cwd=self.directory,
                # What it leaves there (the Kubernetes client its certificates) goes with everything else.
                env={**os.environ, "TMPDIR": str(self.directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_guardian,  # noqa: PLW1509 - safe: this process has one thread
            )

    def _reap(self) -> None:
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[name]
                (self.directory / f"{name}.exit").write_text(str(process.returncode))

    def clean_up(self) -> None:
        """Kill and reap what runs, then remove the directory. SIGKILL: the data is thrown away anyway."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class _Process:
    """A process by pid and start time, so that a reused pid is not taken for it."""

    def __init__(self, pid: int) -> None:
        self.stat = Path(f"/proc/{pid}/stat")
        self.started = self._start_time()

    def _start_time(self) -> str:
        try:
            # Fields after the command in parentheses, which may itself hold spaces: proc(5), state is the third field
            # of all and the start time the 22nd. A zombie is as good as gone.
            fields = self.stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[19]

    def alive(self) -> bool:
        return self.started != "" and self._start_time() == self.started


def main(arguments: list[str]) -> None:
    """Guard until told to stop; terminal signals are for the parent, who says what they mean."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guardian = Guardian(Path(arguments[0]), int(arguments[1]))
    try:
        guardian.run()
    finally:
        guardian.clean_up()


if __name__ == "__main__":
    main(sys.argv[1:])
