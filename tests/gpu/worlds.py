"""A simulated machine with a journal, seen through the real nvidia-ml-py, and a process that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from mig_manager.cli.machines import simulated_reset
from mig_manager.geometry.layout import GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.state import Card
from mig_manager.gpu.apply import Means, apply, recover
from mig_manager.gpu.holders import process_holders
from mig_manager.gpu.journal import Journal
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.parts import Event
from mig_manager.gpu.reset import Reset
from mig_manager.gpu.result import Result
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import Plan
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed
from tests.gpu.spied_library import SpiedLibrary

A100, H100, SXM = "A100-PCIE-80GB", "H100-PCIE-80GB", "A100-SXM4-80GB"


class KilledError(BaseException):
    """The process is dead: no handler may catch this, and nothing it tries afterwards reaches the outside."""


@dataclass
class Process:
    """The life of one process: counts the points at which it could be killed, and dies at one of them."""

    die_at: int = 0
    points: int = 0
    names: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        """A point of time; from ``die_at`` on nothing gets past it."""
        self.points += 1
        self.names.append(name)
        if self.die_at and self.points >= self.die_at:
            raise KilledError


@dataclass
class World:
    """A machine with its journal file. Every run is a process of its own."""

    machine: Machine
    path: Path
    slept: list[float] = field(default_factory=list)

    @contextmanager
    def process(self, process: Process | None = None) -> Iterator[NvmlGpus]:
        """A process that sees the machine; the library is loaded anew."""
        with installed(self.machine, self.slept.append):
            if process is not None:
                pynvml.nvmlLib = SpiedLibrary(pynvml.nvmlLib, process.point)
            yield NvmlGpus()

    @property
    def journal(self) -> Journal:
        """The journal as a new process opens it."""
        return Journal(self.path)

    def means(self, reset: Reset | None = None, progress: Callable[[Event], None] | None = None) -> Means:
        """No real time passes, and resets are the simulated machine's."""
        said = progress or (lambda _: None)
        return Means(process_holders, reset or self.reset, said, self.slept.append, lambda: "2026-01-02T03:04:05+00:00")

    def reset(self, cards: Sequence[Card]) -> None:
        """Reset cards as nvidia-smi would."""
        simulated_reset(self.machine)(cards)

    def cards(self) -> tuple[Card, ...]:
        """All cards as they are."""
        with self.process() as gpus, gpus.session() as session:
            return session.cards()

    def plan(self, layout: Layout) -> Plan:
        """The planner's answer to the cards as they are, with the processes that NVML shows."""
        with self.process() as gpus, gpus.session() as session:
            cards = session.cards()
            return plan_node(cards, process_holders(session, [c.uuid for c in cards]), layout)

    def apply(self, plan: Plan, process: Process | None = None, **extra: Any) -> Result:  # noqa: ANN401 - apply's
        """Apply a plan in a process of its own."""
        with self.process(process) as gpus:
            return apply(gpus, plan, self.journal, extra.pop("means", None) or self.means(), **extra)

    def recover(self, process: Process | None = None, means: Means | None = None) -> Result | None:
        """Recover in a process of its own."""
        with self.process(process) as gpus:
            return recover(gpus, self.journal, means or self.means())

    def shape(self) -> list[list[str]]:
        """Every card's slices as ``1g.10gb@0[1c@0]``, or ``off``."""
        return [shape(card) for card in self.cards()]

    def births(self, gpu: int) -> dict[tuple[int, int, int], int]:
        """When every instance of a card was made: an instance that was made anew has another number."""
        return {(i.id, i.profile_id, i.start): i.generation for i in self.machine.card(gpu).instances}


Make = Callable[..., World]
"""The fixture ``world``: a machine with the cards named."""


def shape(card: Card) -> list[str]:
    """A card's slices as ``1g.10gb@0[1c@0]``, or ``off``."""
    if not card.mig_current:
        return ["off"]
    return [
        f"{card.profiles[g.profile_id]}@{g.placement.start}"
        f"[{','.join(f'{c.placement.size}c@{c.placement.start}' for c in g.compute)}]"
        for g in card.instances
    ]


def wants(*entries: GpuEntry) -> Layout:
    """A layout; cards that no entry matches stay as they are."""
    return Layout(entries)


def on(gpu: int, *slices: str, mig: MigMode = MigMode.ENABLED) -> GpuEntry:
    """What one card shall have: ``1g*3``, ``3g/1c,1c,1c``."""
    return GpuEntry(tuple(map(_request, slices)), Match(indices=(gpu,)), mig=mig)


def _request(text: str) -> SliceRequest:
    name, _, count = text.partition("*")
    name, _, compute = name.partition("/")
    widths = tuple(int(w[0]) for w in compute.split(",")) if compute else None
    return SliceRequest(SliceName.parse(name), int(count or 1), compute=widths)
