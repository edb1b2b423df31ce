"""Another number of NUMA nodes than the machine has, for whoever reads sysfs, as the kubelet does (by cAdvisor).

The kernel knows nothing of it, which does not matter: nothing here binds memory, and CPUs are not shared out. What is
tested is the real kubelet's decision on what it reads.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from tests.node.room import run

SYSFS = Path("/sys/devices/system/node")
_CPUS = Path("/sys/devices/system/cpu")


def pretend(count: int, directory: Path) -> None:
    """Let this mount namespace's sysfs show ``count`` NUMA nodes, which share CPUs and memory; 0 leaves it alone."""
    if count == 0:
        return
    nodes = [directory / f"node{number}" for number in range(count)]
    for number, node in enumerate(nodes):
        node.mkdir(parents=True)
        memory_kib = _memory_kib() // count
        (node / "meminfo").write_text(f"Node {number} MemTotal: {memory_kib} kB\n")
        (node / "distance").write_text(" ".join("10" if other == number else "20" for other in range(count)) + "\n")
    cpus = sorted(_CPUS.glob("cpu[0-9]*"))
    for cpu, node in zip(cpus, cycle(nodes), strict=False):
        (node / cpu.name).symlink_to(cpu)
    for name in ("online", "possible", "has_cpu", "has_memory"):
        (directory / name).write_text(f"0-{count - 1}\n")
    run("mount", "--bind", str(directory), str(SYSFS))


def _memory_kib() -> int:
    words = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    return int(words.split()[1])
