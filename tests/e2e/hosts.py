"""Simulated hosts, and what their objects say in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mig_manager.agent.names import PREFIX
from mig_manager.kube.port import Object
from mig_manager.sim.model.finding import hardware_name
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import Fault
from mig_manager.sim.node.node import SimulatedNode
from tests.e2e.processes import Process

FOR_EVER_MS = 3_600_000
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"

Slices = Mapping[str, int]


@dataclass
class Host:
    """A node: its machine, what simulates it, and its agent."""

    name: str
    machine: Machine
    simulated: SimulatedNode
    agent: Process
    journal: Path

    def counts(self) -> Counter[str]:
        """How many GPU instances of each kind all cards have."""
        return Counter(hardware_name(card, i) for card in self.machine.read().cards for i in card.instances)

    def in_call(self, function: str, call: int = 1) -> Callable[[], bool]:
        """Let a call of an NVML function from now on last for ever; the condition that the agent is in it."""
        self.machine.inject(function, calls=[call], latency_ms=FOR_EVER_MS)
        # A fault is gone as soon as it has struck for the last time.
        return lambda: not any(f.function == function and _endless(f) for f in self.machine.read().faults)

    def no_more_calls(self) -> None:
        """Take back what ``in_call`` has laid and nobody has run into."""
        with self.machine.change() as state:
            state.faults = [f for f in state.faults if not _endless(f)]


def _endless(fault: Fault) -> bool:
    return fault.latency_ms >= FOR_EVER_MS


def new_machine(path: Path, *gpus: str, slices: Sequence[Slices] = (), mig: bool = True) -> Machine:
    """A machine in a file, with ``slices`` per card; MIG is on where there is such a thing, unless told otherwise.

    Creating an instance takes it a while, so that what is missing meanwhile is seen.
    """
    machine = Machine.create(path, gpus or ["T4"], mig=mig, seed=path.stem)
    if not gpus:
        machine.remove_card(0)
    for gpu, wanted in enumerate(slices):
        for profile, count in wanted.items():
            for _ in range(count):
                machine.add_instance(gpu, profile)
    machine.inject(CREATE, latency_ms=100)
    return machine


def ours(node: Object) -> dict[str, str]:
    """The labels of a Node that are ours, without their prefix."""
    labels = node["metadata"].get("labels") or {}
    return {k.removeprefix(PREFIX): v for k, v in labels.items() if k.startswith(PREFIX)}


def offered(node: Object) -> dict[str, int]:
    """What a Node says can be had, without zeros."""
    allocatable = node.get("status", {}).get("allocatable") or {}
    found = {k.removeprefix("nvidia.com/"): int(v) for k, v in allocatable.items() if k.startswith("nvidia.com/")}
    return {name: count for name, count in found.items() if count}


def reason(status: Mapping[str, Any]) -> str:
    """Why a MIGNode is not Ready; ``Ready`` when it is."""
    return next((str(c["reason"]) for c in status.get("conditions", ()) if c["type"] == "Ready"), "")
