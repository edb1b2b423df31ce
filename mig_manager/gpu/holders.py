"""Who uses what on a card, as far as NVML sees it, and who of them stands in the way of a destruction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from mig_manager.geometry.state import ComputeInstance, GpuInstance, Holder, Holders, SliceKey
from mig_manager.gpu.port import GpuSession, InUseError

FindHolders = Callable[[GpuSession, Collection[str]], Holders]
"""Finds who uses the cards with these UUIDs, at this moment."""

_IN_USE = 19  # NVML_ERROR_IN_USE in nvml.h: what NVML itself would say


class HeldError(InUseError):
    """Something that was to go is used by ``holders``; it was not touched."""

    def __init__(self, doing: str, holders: Collection[Holder]) -> None:
        self.holders = tuple(sorted(holders))
        super().__init__(doing, f"used by {', '.join(h.name for h in self.holders)}", _IN_USE)


def process_holders(session: GpuSession, gpu_uuids: Collection[str]) -> Holders:
    """The processes that NVML reports, as holders called ``pid 4711 (python)`` after what runs on this host."""
    return processes_called(session, gpu_uuids, lambda _, pid: _called(pid))


def processes_called(session: GpuSession, gpu_uuids: Collection[str], name: Callable[[str, int], str]) -> Holders:
    """The processes that NVML reports, as holders; ``name`` calls them, by the UUID of their card and their pid."""
    found: dict[SliceKey, frozenset[Holder]] = {}
    for uuid in gpu_uuids:
        for process in session.processes(uuid):
            key = SliceKey(uuid, process.gpu_instance, process.compute_instance)
            found[key] = found.get(key, frozenset()) | {Holder(name(uuid, process.pid))}
    return found


def holders_of_compute(
    holders: Holders, uuid: str, instance: GpuInstance, compute: ComputeInstance
) -> frozenset[Holder]:
    """Everybody who uses the compute instance, or its GPU instance without saying which part."""
    return frozenset(
        holder
        for key, who in holders.items()
        if key.gpu_uuid == uuid and key.gpu_instance == instance.id and key.compute_instance in (None, compute.id)
        for holder in who
    )


def _called(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has just ended, or lives in another pid namespace
        return f"pid {pid}"
    shown = name if name.isprintable() else repr(name)[1:-1]  # a program names itself as it likes
    return f"pid {pid} ({shown})"
