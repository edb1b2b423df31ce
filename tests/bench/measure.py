"""What a benchmark has found, as one table; and what the kernel knows of a process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mig_manager.render.table import text_table

MIB_KIB = 1024


@dataclass(frozen=True)
class Measure:
    """One line. ``broken`` is for counts only: how long something takes says as much about the machine as about us."""

    what: str
    value: str
    budget: str = ""
    broken: bool = False


def table(measures: Sequence[Measure]) -> list[str]:
    """The lines of the table; a broken budget is marked."""
    rows = [(m.what, m.value, m.budget, "BROKEN" if m.broken else " ") for m in measures]
    return text_table(("measure", "value", "budget", " "), rows, right=("value", "budget"))


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:.2f} s"


def percent(share: float) -> str:
    """A share of one core."""
    return f"{share:.2%}"


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process in KiB, now and at its highest (proc_pid_status(5): VmRSS, VmHWM)."""

    now_kib: int
    peak_kib: int

    @classmethod
    def of(cls, pid: int) -> Memory:
        """Read it."""
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found = {name: value for name, _, value in (line.partition(":") for line in lines)}
        return cls(*(int(found[name].split()[0]) for name in ("VmRSS", "VmHWM")))

    @property
    def text(self) -> str:
        """``80.1 MiB, at most 83.4``."""
        return f"{self.now_kib / MIB_KIB:.1f} MiB, at most {self.peak_kib / MIB_KIB:.1f}"


def cpu_s(pid: int) -> float:
    """The processor time that a process has used, of all its threads, in user and in kernel mode."""
    # proc_pid_stat(5): utime and stime are the 14th and 15th field; the second one ends with the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
