"""What a simulated machine consists of, and how that is written to a file.

Values only, mutable because every change happens on a private copy (see ``store``). The format is JSON with a schema
number; a file that cannot be read is refused whole, never guessed at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal

from mig_manager.sim.model.loading import load

SCHEMA = 1


ClientKind = Literal["compute", "graphics", "mps"]
"""Which of NVML's process lists a client is in."""


class MachineError(Exception):
    """Something about the simulated machine that cannot be done: what is wrong and what to do instead.

    ``code`` is what the driver answered, where it was asked.
    """

    def __init__(self, problem: str, hint: str = "", code: int = 0) -> None:
        self.problem = problem
        self.hint = hint
        self.code = code
        super().__init__(f"{problem}; {hint}" if hint else problem)


@dataclass
class ComputeInstanceState:
    """A compute instance; ``start`` and ``size`` count compute slices of its GPU instance."""

    id: int
    profile_id: int
    start: int
    size: int
    generation: int


@dataclass
class GpuInstanceState:
    """A GPU instance; ``start`` and ``size`` count memory units of the card."""

    id: int
    profile_id: int
    start: int
    size: int
    generation: int
    compute: list[ComputeInstanceState] = field(default_factory=list)

    def compute_instance(self, compute_id: int) -> ComputeInstanceState | None:
        """The compute instance with that id."""
        return next((c for c in self.compute if c.id == compute_id), None)


@dataclass
class Client:
    """Somebody who uses a card or a part of it; both ids ``None``: the card as a whole.

    A client that is not ``visible`` keeps things in use without appearing in NVML's process lists, as monitoring
    hosts and clients in other PID namespaces do.
    """

    pid: int
    name: str
    gpu_instance: int | None
    compute_instance: int | None
    memory_mib: int
    visible: bool = True
    kind: ClientKind = "compute"


@dataclass
class CardState:
    """One card. ``index`` is not stored: NVML counts cards in the order of their bus ids.

    ``numa_node`` is what ``/sys/bus/pci/devices/<bus id>/numa_node`` says, ``None`` where that is -1.
    """

    model: str
    uuid: str
    bus_id: str
    minor: int
    serial: str
    subsystem_id: int = 0
    half_swapped: bool = False
    reset_group: str = ""
    numa_node: int | None = None
    passthrough: bool = False
    mig_current: bool = False
    mig_pending: bool = False
    instances: list[GpuInstanceState] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    def instance(self, instance_id: int) -> GpuInstanceState | None:
        """The GPU instance with that id."""
        return next((i for i in self.instances if i.id == instance_id), None)

    def clients_of(self, gpu_instance: int, compute_instance: int | None = None) -> list[Client]:
        """Who uses the GPU instance, or only that compute instance of it."""
        return [
            c for c in self.clients if c.gpu_instance == gpu_instance and compute_instance in (None, c.compute_instance)
        ]


@dataclass
class Quirks:
    """What older drivers do differently; all off is a current one."""

    profile_info_needs_mig: bool = False
    """Profiles cannot be read while MIG is off (R535 and older)."""
    no_double_memory: bool = False
    """NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 does not exist (before R525)."""
    no_4g_with_3g: bool = False
    """A 4g and a 3g exclude each other (before R510)."""
    first_3g_low: bool = False
    """The first 3g is placed at 0 instead of 4 (R450)."""
    gapped_mig_indices: bool = False
    """MIG devices are numbered by their place, so that indices have gaps."""


@dataclass
class Fault:
    """How calls of one function go wrong.

    ``calls`` counts from the moment the fault is set, beginning with 1, or is ``every``. ``code`` 0 only delays.
    ``silent`` means that the function says SUCCESS and does nothing. ``seen`` counts the calls so far.
    """

    function: str
    code: int = 0
    calls: list[int] | Literal["every"] = "every"
    latency_ms: int = 0
    silent: bool = False
    seen: int = 0

    def strikes(self) -> bool:
        """Whether the call counted last is one of those meant."""
        return self.calls == "every" or self.seen in self.calls

    @property
    def exhausted(self) -> bool:
        """Whether no later call can be struck."""
        return self.calls != "every" and self.seen >= max(self.calls)


@dataclass
class MachineState:
    """Everything that is true about the machine at one moment."""

    driver: str
    seed: str
    boot_id: str
    boots: int = 1
    root: bool = True
    generation: int = 0
    quirks: Quirks = field(default_factory=Quirks)
    cards: list[CardState] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def card(self, uuid: str) -> CardState | None:
        """The card with that UUID."""
        return next((c for c in self.cards if c.uuid == uuid), None)

    def reset_group(self, card: CardState) -> list[CardState]:
        """The cards that are reset together with this one, itself included."""
        return [c for c in self.cards if c is card or (card.reset_group and c.reset_group == card.reset_group)]

    def next_generation(self) -> int:
        """A number that no instance ever had, by which handles of a former instance are recognised."""
        self.generation += 1
        return self.generation


def encode(state: MachineState) -> str:
    """The state as JSON."""
    return json.dumps({"schema": SCHEMA, "machine": state}, default=vars, indent=1)


def decode(text: str) -> MachineState:
    """The state that ``encode`` wrote; MachineError when the text is anything else."""
    try:
        document = json.loads(text)
        schema = document["schema"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MachineError("this is not the state of a simulated machine", "create it anew") from error
    if schema != SCHEMA:
        raise MachineError(f"schema {schema} is not {SCHEMA}", "another version wrote it; create it anew")
    try:
        machine: MachineState = load(MachineState, document["machine"], "machine")
    except (ValueError, KeyError) as error:
        raise damaged_state(error) from error
    return machine


def damaged_state(error: Exception) -> MachineError:
    """The error that a file does not hold a machine, and why."""
    return MachineError(f"the state of the simulated machine is damaged ({error})", "create it anew")
