"""Which cards an entry of a layout is for."""

from __future__ import annotations

from mig_manager.geometry.cards import NVIDIA_VENDOR_ID, normalise_model
from mig_manager.geometry.layout import DeviceId, Match
from mig_manager.geometry.names import MEMORY_TOLERANCE
from mig_manager.geometry.state import Card


def matches(card: Card, match: Match | None) -> bool:
    """Whether the card is one of those that ``match`` describes; ``None`` describes every card."""
    if match is None:
        return True
    return (
        (not match.models or _is_model(card, match.models))
        and (not match.device_ids or any(_is_device(card, d) for d in match.device_ids))
        and (not match.bus_ids or normalise_bus_id(card.bus_id) in map(normalise_bus_id, match.bus_ids))
        and (not match.uuids or card.uuid in match.uuids)
        and (not match.indices or card.index in match.indices)
        and (match.memory_mib is None or _has_memory(card, match.memory_mib))
        and (match.compute_slices is None or _has_slices(card, match.compute_slices))
    )


def normalise_bus_id(bus_id: str) -> str:
    """A PCI address as the kernel writes it: ``0000:3b:00.0``. NVML pads the domain to eight digits."""
    text = bus_id.strip().lower()
    if text.count(":") == 1:
        text = f"0000:{text}"
    domain, _, rest = text.partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}"


def _is_model(card: Card, models: tuple[str, ...]) -> bool:
    names = {normalise_model(card.model), normalise_model(card.name)}
    return any(normalise_model(model) in names for model in models)


def _is_device(card: Card, wanted: DeviceId) -> bool:
    if wanted.vendor != NVIDIA_VENDOR_ID or wanted.device != card.device_id:
        return False
    return wanted.subsystem is None or wanted.subsystem == card.subsystem_id


def _has_memory(card: Card, memory_mib: int) -> bool:
    return abs(card.memory_mib - memory_mib) <= memory_mib * MEMORY_TOLERANCE


def _has_slices(card: Card, compute_slices: int) -> bool:
    return card.table is not None and card.table.full.slice_count == compute_slices
