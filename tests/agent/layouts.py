"""Layouts in the few words that a story needs."""

from __future__ import annotations

from collections.abc import Collection

from mig_manager.geometry.layout import GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName


def layout(*entries: GpuEntry) -> Layout:
    """A layout; cards that no entry matches stay as they are."""
    return Layout(entries)


def on(gpus: Collection[int] | int, *slices: str, mig: MigMode = MigMode.ENABLED) -> GpuEntry:
    """What some cards shall have: ``1g*3``, ``3g``."""
    indices = (gpus,) if isinstance(gpus, int) else tuple(gpus)
    return GpuEntry(tuple(map(_request, slices)), Match(indices=indices), mig=mig)


def every(*slices: str, mig: MigMode = MigMode.ENABLED) -> Layout:
    """A layout for all cards with MIG."""
    return Layout((GpuEntry(tuple(map(_request, slices)), mig=mig),))


def _request(text: str) -> SliceRequest:
    name, _, count = text.partition("*")
    return SliceRequest(SliceName.parse(name), "max" if count == "max" else int(count or 1))
