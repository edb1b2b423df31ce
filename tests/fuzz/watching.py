"""What a library that lies was believed: which word stands behind every destruction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.port import GpuSession
from mig_manager.sim.model.keys import ComputeInstanceKey, GpuInstanceKey
from mig_manager.sim.model.machine import Machine
from tests.fuzz.lies import Lie

_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
)
"""Functions by whose answers processes are found; who lies there can hide one."""


@dataclass
class Watch:
    """What the port has said of the cards; ``hurt`` is what was destroyed on its word, and should not have been."""

    machine: Machine
    library: Any
    lies: list[Lie]
    read: dict[str, Card] = field(default_factory=dict)
    hurt: list[str] = field(default_factory=list)
    destroyed: int = 0

    def destroying(self, kind: str, handle: Any) -> None:  # noqa: ANN401 - a handle of NVML
        """Something is about to be destroyed: it must be what was read last, and nobody's as far as is said."""
        handles = self.library._handles
        key: GpuInstanceKey | ComputeInstanceKey
        key = handles.gpu_instance(handle) if kind == "gpu" else handles.compute_instance(handle)
        self.destroyed += 1
        instance = self.machine.card(key.uuid).instance(key.gpu_instance)
        assert instance is not None, "a handle that is not stale has an instance"
        said = next((g for g in self.read[key.uuid].instances if g.id == instance.id), None)
        true = (instance.profile_id, Placement(instance.start, instance.size))
        compute_id = None
        if said is None or (said.profile_id, said.placement) != true:
            self.hurt.append(f"GPU instance {instance.id} is {true}, and was destroyed as {said}")
        elif isinstance(key, ComputeInstanceKey):
            compute_id = key.compute_instance
            compute = instance.compute_instance(compute_id)
            assert compute is not None, "the same"
            place = Placement(compute.start, compute.size)
            if (compute.id, place) not in {(c.id, c.placement) for c in said.compute}:
                self.hurt.append(f"compute instance {compute.id} at {place} was destroyed as one of {said.compute}")
        users = self.machine.card(key.uuid).clients_of(key.gpu_instance, compute_id)
        if users and not any(lie.function in _PROCESSES for lie in self.lies):
            self.hurt.append(f"GPU instance {instance.id} is used by {users}")


@dataclass
class WatchedGpus:
    """The port, with a note of what it said of each card."""

    gpus: NvmlGpus
    watch: Watch

    @contextmanager
    def session(self) -> Iterator[GpuSession]:
        """A session, watched."""
        with self.gpus.session() as session:
            watched: Any = WatchedSession(session, self.watch)
            yield watched


@dataclass
class WatchedSession:
    """A session of the port."""

    session: GpuSession
    watch: Watch

    def cards(self) -> tuple[Card, ...]:
        """All cards."""
        found = self.session.cards()
        self.watch.read.update({card.uuid: card for card in found})
        return found

    def card(self, gpu_uuid: str) -> Card:
        """One card."""
        self.watch.read[gpu_uuid] = self.session.card(gpu_uuid)
        return self.watch.read[gpu_uuid]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else the session does
        return getattr(self.session, name)


def lives(machine: Machine) -> set[tuple[int, int, int, int]]:
    """Every process with the slice that it uses: card, GPU instance, and the number with which that was born."""
    return {
        (client.pid, card.minor, instance.id, instance.generation)
        for card in machine.read().cards
        for instance in card.instances
        for client in card.clients_of(instance.id)
    }
