"""Layouts are written and read without loss, and told apart by their hash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.api.layout import format_device_id, layout_from_dict, layout_hash, layout_to_dict, parse_device_id
from mig_manager.api.schema import validate_layout
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import DeviceId, GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName

attributes = st.sampled_from(["", "+me", "+me.all", "-me", "+gfx", "+gfx,me"])
instance_names = st.builds(SliceName, st.integers(1, 7), st.none() | st.integers(1, 999), attributes)
device_ids = st.builds(DeviceId, st.integers(0, 0xFFFF), st.just(0x10DE), st.none() | st.integers(0, 0xFFFFFFFF))
bus_ids = st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True)
uuids = st.uuids().map(lambda u: f"GPU-{u}")
counts = st.integers(1, 7)


def several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


matches = st.builds(
    Match,
    models=several(st.text("ABCabc019- ", min_size=1, max_size=20)),
    device_ids=several(device_ids),
    bus_ids=several(bus_ids),
    uuids=several(uuids),
    indices=several(st.integers(0, 63)),
    memory_mib=st.none() | st.integers(1, 300_000),
    compute_slices=st.none() | st.integers(1, 8),
).filter(lambda match: match != Match())


@st.composite
def requests(draw: st.DrawFn) -> SliceRequest:
    """Slices as the language allows them: pinned, cut into compute instances, with double memory, or counted."""
    name = draw(instance_names)
    match draw(st.sampled_from(["counted", "pinned", "cut", "double", "part"])):
        case "pinned":
            return SliceRequest(name, start=draw(st.integers(0, 15)))
        case "cut":
            return SliceRequest(name, draw(counts), compute=(1,) * draw(st.integers(1, name.gpu)))
        case "double":
            return SliceRequest(SliceName(1), draw(counts), double_memory=True)
        case "part" if name.gpu > 1:
            return SliceRequest(replace(name, compute=draw(st.integers(1, name.gpu - 1))), draw(counts))
    return SliceRequest(name, draw(counts))


@st.composite
def entries(draw: st.DrawFn) -> GpuEntry:
    mode = draw(st.sampled_from(MigMode))
    items = draw(st.lists(requests(), max_size=3)) if mode is MigMode.ENABLED else []
    if items and items[0].start is None and items[0].slice.compute is None and draw(st.booleans()):
        items[0] = replace(items[0], count="max")
    return GpuEntry(tuple(items), draw(st.none() | matches), draw(st.none() | st.integers(1, 64)), mode)


layouts = st.builds(Layout, st.lists(entries(), min_size=1, max_size=3).map(tuple), st.just("some"))


@settings(max_examples=100, deadline=None)
@given(layouts)
def test_written_and_read_again(layout: Layout) -> None:
    """A layout comes back equal, and what is written passes the schema."""
    written = layout_to_dict(layout)
    assert layout == layout_from_dict(written, "some")
    assert layout == layout_from_dict(validate_layout(written), "some")


def test_defaults_are_not_written() -> None:
    """The short form is written: what is a default anyway is left out."""
    layout = Layout((GpuEntry((SliceRequest(SliceName(1, 10)),)), GpuEntry(mig=MigMode.DISABLED)))
    assert {"gpus": [{"slices": [{"slice": "1g.10gb"}]}, {"mig": "Disabled"}]} == layout_to_dict(layout)


def test_everything_is_read() -> None:
    """Each field of the language arrives in its value."""
    written = {
        "gpus": [
            {
                "match": {
                    "models": ["A30"],
                    "deviceIDs": ["20b2"],
                    "busIDs": ["00000000:3B:00.0", "07:00.0"],
                    "uuids": ["GPU-1"],
                    "indices": [0],
                    "memoryMiB": 81920,
                    "computeSlices": 7,
                },
                "count": 2,
                "slices": [
                    {"slice": "3g.40gb", "count": 1, "start": 4, "compute": ["2c", "1c"]},
                    {"slice": "1g", "memory": "double", "count": "max"},
                ],
            }
        ]
    }
    match = Match(("A30",), (DeviceId(0x20B2),), ("0000:3b:00.0", "0000:07:00.0"), ("GPU-1",), (0,), 81920, 7)
    slices = (
        SliceRequest(SliceName(3, 40), 1, 4, (2, 1)),
        SliceRequest(SliceName(1), "max", double_memory=True),
    )
    assert Layout((GpuEntry(slices, match, 2),), "n") == layout_from_dict(written, "n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x20B2", DeviceId(0x20B2)),
        ("20b2", DeviceId(0x20B2)),
        ("0X20B210DE", DeviceId(0x20B2)),
        ("20B210DE:147F10DE", DeviceId(0x20B2, subsystem=0x147F10DE)),
        ("0x20B210DE:0x147F10DE", DeviceId(0x20B2, subsystem=0x147F10DE)),
    ],
)
def test_device_ids(text: str, expected: DeviceId) -> None:
    """A PCI id is read with and without vendor, board and 0x."""
    assert expected == parse_device_id(text)
    assert expected == parse_device_id(format_device_id(expected))


@pytest.mark.parametrize(
    "text", ["", "0x", "20B", "20B2 ", "0x20B2:0x147F10DE", "0x20B21002", "20_2", "0x20B210DE:", "-0B2"]
)
def test_other_device_ids(text: str) -> None:
    """Anything else is refused, also the id of another vendor."""
    with pytest.raises(LayoutError) as caught:
        parse_device_id(text)
    assert "InvalidDeviceID" == caught.value.reason


@pytest.mark.parametrize("count", [0, -1, 8, 2**31, "7", "most"])
def test_count_that_the_schema_would_refuse(count: object) -> None:
    """A MIGNode's schema has no rule for it, and a huge one would fill the memory."""
    with pytest.raises(LayoutError, match="is no count of slices"):
        layout_from_dict({"gpus": [{"match": {}, "slices": [{"slice": "1g", "count": count}]}]})


def test_hash() -> None:
    """Equal wishes have equal hashes whatever they are called; other slices or another strategy have not."""
    layout = Layout((GpuEntry((SliceRequest(SliceName(1), 7),)),), "a")
    other = Layout((GpuEntry((SliceRequest(SliceName(1), 6),)),), "a")
    assert layout_hash(layout) == layout_hash(replace(layout, name="b"))
    assert 12 == len(layout_hash(layout))
    assert 3 == len({layout_hash(layout), layout_hash(other), layout_hash(layout, "Single")})
