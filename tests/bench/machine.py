"""A simulated machine whose NVML calls are counted."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pynvml

from mig_manager.geometry.layout import Layout
from mig_manager.gpu.apply import apply
from mig_manager.gpu.journal import Journal
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.planner.node import plan_node
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed


class _CountedFunction:
    def __init__(self, name: str, function: Callable[..., object], calls: Counter[str]) -> None:
        self.name, self.function, self.calls = name, function, calls
        self.restype: object = None

    def __call__(self, *arguments: object) -> object:
        self.calls[self.name] += 1
        return self.function(*arguments)


class _CountedLibrary:
    def __init__(self, library: object, calls: Counter[str]) -> None:
        self.library, self.calls = library, calls

    def __getattr__(self, name: str) -> _CountedFunction:
        return _CountedFunction(name, getattr(self.library, name), self.calls)


@dataclass
class Bench:
    """A machine on the bench: apply layouts, read off the NVML calls they took, by function."""

    machine: Machine
    journal: Journal
    calls: Counter[str] = field(default_factory=Counter)

    def apply(self, layout: Layout) -> Counter[str]:
        """Plan from the cards as they are, apply, and return the calls of both."""
        self.calls.clear()
        gpus = NvmlGpus()
        with gpus.session() as session:
            plan = plan_node(session.cards(), {}, layout)
        result = apply(gpus, plan, self.journal)
        if not result.ok:
            msg = f"applying failed: {result.message}"
            raise RuntimeError(msg)
        return Counter(self.calls)


@contextmanager
def bench(gpus: Sequence[str], *, mig: bool) -> Iterator[Bench]:
    """A machine in memory with these cards, seen by nvidia-ml-py through a counting library."""
    machine = Machine.create(None, gpus, mig=mig)
    with tempfile.TemporaryDirectory() as directory, installed(machine):
        found = Bench(machine, Journal(Path(directory) / "journal.json"))
        pynvml.nvmlLib = _CountedLibrary(pynvml.nvmlLib, found.calls)
        yield found
