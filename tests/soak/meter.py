"""Looks at the processes all the time: what they hold, and how much they ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.bench.measure import MIB_KIB
from tests.e2e.processes import Process
from tests.soak.series import FIGURES, Series, Trend

INTERVAL_S = 2.0


class Meter:
    """A thread while the block lasts. Each life of a process is a series of its own."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self.counts: list[tuple[float, int]] = []
        self._processes = processes
        self._series: dict[tuple[str, int], Series] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def lives(self) -> int:
        """How many lives of processes were seen."""
        return len(self._series)

    def trends(self) -> list[Trend]:
        """Of every life that was long enough."""
        return [trend for series in tuple(self._series.values()) for trend in series.trends()]

    def most(self) -> list[float]:
        """The highest value of each figure, of all processes, just now."""
        last = [s.latest for s in tuple(self._series.values()) if s.latest]
        return [max(values) for values in zip(*last, strict=True)] if last else [0.0] * len(FIGURES)

    def requests(self) -> dict[str, int]:
        """How many requests each process has made so far, in all its lives."""
        return {process.name: len(process.proxy.requests) for process in self._processes}

    def look(self) -> None:
        """Take one sample of everything that runs."""
        for process in self._processes:
            if not process.running:
                continue
            pid = process.pid
            sample = held(pid)
            if sample is not None:
                self._series.setdefault((process.name, pid), Series(process.name, pid)).add(sample)
        self.counts.append((time.monotonic(), sum(self.requests().values())))

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self.look()


def held(pid: int) -> tuple[float, ...] | None:
    """Resident memory in MiB, open file descriptors and threads of a process; ``None`` when it has ended.

    proc_pid_status(5) and proc_pid_fd(5).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    if "VmRSS" not in found:
        return None  # a zombie
    return int(found["VmRSS"].split()[0]) / MIB_KIB, descriptors, int(found["Threads"])
