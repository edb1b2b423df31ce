"""Layouts as they are written in files and objects, and as values; and the hash by which they are told apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from mig_manager.api.rules import is_count
from mig_manager.geometry.cards import NVIDIA_VENDOR_ID
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import DeviceId, GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.matching import normalise_bus_id
from mig_manager.geometry.names import SliceName

_DEVICE_ID = re.compile(
    r"(?:0[xX])?(?P<device>[0-9A-Fa-f]{4})(?:(?P<vendor>[0-9A-Fa-f]{4})(?::(?:0[xX])?(?P<board>[0-9A-Fa-f]{8}))?)?"
)


def layout_from_dict(layout: Mapping[str, Any], name: str = "") -> Layout:
    """A layout (``{gpus: [...]}``) that the schema has accepted, as a value."""
    return Layout(tuple(_entry(entry) for entry in layout["gpus"]), name)


def layout_to_dict(layout: Layout) -> dict[str, Any]:
    """The layout as it would be written, without what is a default anyway. Reading it again gives an equal layout."""
    return {"gpus": [_entry_dict(entry) for entry in layout.gpus]}


def layout_hash(layout: Layout, strategy: str = "Auto") -> str:
    """Twelve hexadecimal digits that are equal for equal wishes; the layout's name is not part of it."""
    wish = json.dumps([layout_to_dict(layout), strategy], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(wish.encode()).hexdigest()[:12]


def parse_device_id(text: str) -> DeviceId:
    """``0x20B2``, ``20B2``, ``0x20B210DE`` or ``0x20B210DE:0x147F10DE``.

    Raises LayoutError (InvalidDeviceID) for anything else, and for the id of another vendor.
    """
    match = _DEVICE_ID.fullmatch(text)
    if match is None:
        raise LayoutError("InvalidDeviceID", f"{text!r} is not a PCI id", "write it like 0x20B2 or 0x20B210DE")
    vendor = int(match["vendor"], 16) if match["vendor"] else NVIDIA_VENDOR_ID
    if vendor != NVIDIA_VENDOR_ID:
        raise LayoutError("InvalidDeviceID", f"{text!r} is not an id of NVIDIA", "NVIDIA's end with 10DE: 0x20B210DE")
    return DeviceId(int(match["device"], 16), vendor, int(match["board"], 16) if match["board"] else None)


def format_device_id(device_id: DeviceId) -> str:
    """The id as NVML writes it: ``0x20B2`` alone, ``0x20B210DE:0x147F10DE`` with the board."""
    if device_id.subsystem is None:
        return f"0x{device_id.device:04X}"
    return f"0x{device_id.device:04X}{device_id.vendor:04X}:0x{device_id.subsystem:08X}"


def _entry(entry: Mapping[str, Any]) -> GpuEntry:
    return GpuEntry(
        slices=tuple(_request(item) for item in entry.get("slices", ())),
        match=_match(entry["match"]) if "match" in entry else None,
        count=entry.get("count"),
        mig=MigMode(entry.get("mig", MigMode.ENABLED)),
    )


def _match(match: Mapping[str, Any]) -> Match:
    return Match(
        models=tuple(match.get("models", ())),
        device_ids=tuple(parse_device_id(text) for text in match.get("deviceIDs", ())),
        bus_ids=tuple(normalise_bus_id(text) for text in match.get("busIDs", ())),
        uuids=tuple(match.get("uuids", ())),
        indices=tuple(match.get("indices", ())),
        memory_mib=match.get("memoryMiB"),
        compute_slices=match.get("computeSlices"),
    )


def _request(item: Mapping[str, Any]) -> SliceRequest:
    widths, count = item.get("compute"), item.get("count", 1)
    if not is_count(count):  # the schema of a MIGNode has no rule for it
        raise LayoutError("InvalidSpec", f"{count!r} is no count of slices", "write 1 to 7, or max", "count")
    return SliceRequest(
        slice=SliceName.parse(item["slice"]),
        count=count,
        start=item.get("start"),
        compute=None if widths is None else tuple(int(width.removesuffix("c")) for width in widths),
        double_memory="memory" in item,
    )


def _entry_dict(entry: GpuEntry) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if entry.match is not None:
        made["match"] = _match_dict(entry.match)
    if entry.count is not None:
        made["count"] = entry.count
    if entry.mig is MigMode.ENABLED:
        made["slices"] = [_request_dict(request) for request in entry.slices]
    else:
        made["mig"] = str(entry.mig)
    return made


def _match_dict(match: Match) -> dict[str, Any]:
    fields = {
        "models": list(match.models),
        "deviceIDs": [format_device_id(d) for d in match.device_ids],
        "busIDs": list(match.bus_ids),
        "uuids": list(match.uuids),
        "indices": list(match.indices),
        "memoryMiB": match.memory_mib,
        "computeSlices": match.compute_slices,
    }
    return {name: value for name, value in fields.items() if value}


def _request_dict(request: SliceRequest) -> dict[str, Any]:
    made: dict[str, Any] = {"slice": str(request.slice)}
    if request.double_memory:
        made["memory"] = "double"
    if request.count != 1:
        made["count"] = request.count
    if request.start is not None:
        made["start"] = request.start
    if request.compute is not None:
        made["compute"] = [f"{width}c" for width in request.compute]
    return made
