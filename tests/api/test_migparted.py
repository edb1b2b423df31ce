"""Files of NVIDIA mig-parted work here without edits; what could never have worked there is refused with the reason."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mig_manager.api.files import parse_file
from mig_manager.api.migparted import layouts_from_mig_parted
from mig_manager.geometry.cards import Product, products
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import DeviceId, GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import GpuInstanceProfile, ProfileTable
from mig_manager.geometry.resolve import resolve

DEFAULT = Path(__file__).with_name("mig-parted-default.yaml")
CUT = [p for p in products() if p.table is not None]


@cache
def default_layouts() -> dict[str, Layout]:
    return dict(parse_file(DEFAULT.read_text(encoding="utf-8"), "default").profiles)


NAMES = sorted(default_layouts())


def imported(spec: dict[str, Any] | list[dict[str, Any]]) -> tuple[GpuEntry, ...]:
    specs = spec if isinstance(spec, list) else [spec]
    return layouts_from_mig_parted({"version": "v1", "mig-configs": {"c": specs}})["c"].gpus


def refused(spec: dict[str, Any]) -> LayoutError:
    with pytest.raises(LayoutError) as caught:
        imported(spec)
    assert "InvalidMigParted" == caught.value.reason
    return caught.value


def entry_for(layout: Layout, product: Product) -> GpuEntry | None:
    """The entry that a card of the product takes, going by its PCI id."""
    for entry in layout.gpus:
        ids = entry.match.device_ids if entry.match else ()
        if not ids or any(i.device in product.device_ids for i in ids):
            return entry
    return None


def placeable(table: ProfileTable, wanted: list[GpuInstanceProfile], taken: int = 0) -> bool:
    """Whether the instances have places that do not overlap: every way is tried."""
    if not wanted:
        return True
    return any(placeable(table, wanted[1:], taken | p.mask) for p in wanted[0].placements if not p.mask & taken)


def slices_on(layout: Layout, product: Product) -> Counter[GpuInstanceProfile] | None:
    """What the layout means on a card of the product; ``None`` when it does not concern such a card."""
    entry = entry_for(layout, product)
    if entry is None or product.table is None or product.memory_gb is None:
        return None
    wanted = [product.table[w.profile_id] for w in resolve(entry.slices, product.table, product.memory_gb).slices]
    assert placeable(product.table, wanted)
    return Counter(wanted)


def test_the_default_configuration_is_whole() -> None:
    """All 81 configurations are imported under their names."""
    assert 81 == len(NAMES)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("all-balanced", "all-disabled", "all-enabled")])
def test_a_default_fills_the_cards_that_have_its_slice(name: str) -> None:
    """On every product that has the slice of its name, a configuration makes the slices it says, and fills some."""
    filled = 0
    for product in CUT:
        assert product.table is not None
        for profile in product.table:
            if f"all-{profile.name}".replace("+", ".") == name:
                slices = slices_on(default_layouts()[name], product)
                # On GB200 boards that report 189 GB, 1g.24gb is the small slice and not the one with double memory.
                if slices is not None and (name, product.model) != ("all-1g.24gb", "GB200-189GB"):
                    assert {profile: profile.instance_count} == slices
                    filled += 1
    assert filled > 0


def test_balanced_is_balanced() -> None:
    """The configuration all-balanced makes 2 x 1g + 2g + 3g of seven slices, 2 x 1g + 2g of four."""
    unlisted = []
    for product in CUT:
        slices = slices_on(default_layouts()["all-balanced"], product)
        if slices is None:
            unlisted.append(product.model)
            continue
        expected = {"1g": 2, "2g": 1, "3g": 1} if product.grid == "8-unit" else {"1g": 2, "2g": 1}
        assert expected == {str(profile.name.shape): count for profile, count in slices.items()}
    assert [
        *("A100-SXM-64GB", "A800-SXM4-40GB", "H100-SXM5-64GB", "H100-SXM5-94GB", "H100-SXM5-96GB"),
        *("H20-NVL16", "H20-3e", "RTX-PRO-6000-Workstation", "RTX-PRO-6000-Max-Q"),
    ] == unlisted


def test_modes() -> None:
    """The configuration all-disabled switches MIG off; all-enabled leaves cards with MIG and without slices."""
    assert (GpuEntry(mig=MigMode.DISABLED),) == default_layouts()["all-disabled"].gpus
    assert (GpuEntry(),) == default_layouts()["all-enabled"].gpus


def test_a_slice_of_another_card_is_refused_there() -> None:
    """A configuration for other cards is not bent to fit: 1g.5gb is nothing that an H200 has."""
    h200 = next(p for p in CUT if p.model == "H200")
    with pytest.raises(LayoutError, match="no profile") as caught:
        slices_on(default_layouts()["all-1g.5gb"], h200)
    assert "ProfileNotOnGPU" == caught.value.reason


def test_filters_and_devices() -> None:
    """Filter and devices both have to hold; a filter is one id or a list, each with or without a board."""
    spec = {
        "device-filter": ["0x20B210DE", "0x20B210DE:0x147F10DE"],
        "devices": [1, 0, 1],
        "mig-enabled": True,
        "mig-devices": {"1g.10gb": 7},
    }
    match = Match(device_ids=(DeviceId(0x20B2), DeviceId(0x20B2, subsystem=0x147F10DE)), indices=(1, 0))
    assert (GpuEntry((SliceRequest(SliceName(1, 10), 7),), match),) == imported(spec)
    one = imported({"device-filter": "0x20B510DE", "devices": "all", "mig-enabled": False})
    assert (GpuEntry(match=Match(device_ids=(DeviceId(0x20B5),)), mig=MigMode.DISABLED),) == one


@pytest.mark.parametrize("empty", [None, "", []])
def test_no_filter(empty: object) -> None:
    """An absent and an empty filter let every card through."""
    assert (GpuEntry(mig=MigMode.DISABLED),) == imported(
        {"device-filter": empty, "devices": "all", "mig-enabled": False}
    )


def test_the_last_entry_wins() -> None:
    """There entries are applied one after the other, here the first match decides: the order is turned round."""
    every = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    first = {"devices": [0], "mig-enabled": False}
    assert (GpuEntry(match=Match(indices=(0,)), mig=MigMode.DISABLED), *imported(every)) == imported([every, first])


def test_counts() -> None:
    """Slices with count 0 are left out, as long as others remain."""
    spec = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 0, "3g.40gb": 2}}
    assert (GpuEntry((SliceRequest(SliceName(3, 40), 2),)),) == imported(spec)


def test_compute_instances() -> None:
    """Compute instances are counted as such; one as wide as its GPU instance is the plain slice."""
    spec = {"devices": "all", "mig-enabled": True, "mig-devices": {"1c.3g.40gb": 2, "7c.7g.80gb": 1}}
    requests = (SliceRequest(SliceName(3, 40, compute=1), 2), SliceRequest(SliceName(7, 80), 1))
    assert (GpuEntry(requests),) == imported(spec)


def test_attributes() -> None:
    """Attributes are read in any order and with either sign."""
    spec = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.24gb+me,gfx": 1, "2g.48gb-me": 1}}
    names = [str(request.slice) for request in imported(spec)[0].slices]
    assert ["1g.24gb+gfx,me", "2g.48gb-me"] == names


def test_anchors() -> None:
    """Anchors, aliases and merge keys mean what they mean in YAML."""
    text = """
    version: v1
    mig-configs:
      base: &base
      - &first {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
      again: *base
      some:
      - {<<: *first, devices: [0]}
    """
    layouts = parse_file(text, "x").profiles
    assert layouts["base"].gpus == layouts["again"].gpus
    assert (GpuEntry(layouts["base"].gpus[0].slices, Match(indices=(0,))),) == layouts["some"].gpus


OFF: dict[str, Any] = {"devices": "all", "mig-enabled": False}
ON: dict[str, Any] = {"devices": "all", "mig-enabled": True}
AT = "mig-configs.c[0]"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({**OFF, "devices": 0}, f"{AT}.devices: a single number is not accepted by mig-parted either; write [0]"),
        (
            {**OFF, "devices": "0"},
            f"{AT}.devices: '0' is neither all nor a list of GPU indices; write all, or a list like [0, 1]",
        ),
        (
            {"mig-enabled": False},
            f"{AT}.devices: None is neither all nor a list of GPU indices; write all, or a list like [0, 1]",
        ),
        ({**OFF, "devices": []}, f"{AT}.devices: an empty list is for no GPU at all; write all, or a list like [0, 1]"),
        ({**OFF, "devices": [-1]}, f"{AT}.devices: -1 is not the index of a GPU; indices count from 0, up to 63"),
        ({**OFF, "devices": [64]}, f"{AT}.devices: 64 is not the index of a GPU; indices count from 0, up to 63"),
        ({**OFF, "devices": ["0"]}, f"{AT}.devices: '0' is not the index of a GPU; indices count from 0, up to 63"),
        ({**OFF, "devices": [True]}, f"{AT}.devices: True is not the index of a GPU; indices count from 0, up to 63"),
        (
            {**OFF, "gpu": 1},
            f"{AT}.gpu: there is no such field; there are device-filter, devices, mig-enabled, mig-devices",
        ),
        ({"devices": "all"}, f"{AT}.mig-enabled: true or false is needed here"),
        ({**OFF, "mig-enabled": "yes"}, f"{AT}.mig-enabled: true or false is needed here"),
        (
            {**OFF, "mig-devices": {"1g.10gb": 1}},
            f"{AT}.mig-devices: there are no slices with mig-enabled false; leave mig-devices out",
        ),
        (
            ON,
            (
                f"{AT}.mig-devices: the slices are missing, or are not a mapping; "
                'write it like {"1g.10gb": 7}, or {} for none'
            ),
        ),
        (
            {**ON, "mig-devices": {"1g.10gb": 0}},
            f"{AT}.mig-devices: all counts are 0; write {{}} for a card with MIG on and no slices",
        ),
        ({**ON, "mig-devices": {"1g.10gb": -1}}, f"{AT}.mig-devices.1g.10gb: -1 is not a count; write a whole number"),
        (
            {**ON, "mig-devices": {"1g.10gb": True}},
            f"{AT}.mig-devices.1g.10gb: True is not a count; write a whole number",
        ),
        (
            {**ON, "mig-devices": {"1g.10gb": 8}},
            f"{AT}.mig-devices.1g.10gb: no card has 8 slices of one kind; there are at most 7",
        ),
        (
            {**ON, "mig-devices": {"1g": 7}},
            f"{AT}.mig-devices.1g: '1g' has no memory, so mig-parted does not read it; write it like 1g.10gb",
        ),
        (
            {**ON, "mig-devices": {"1g10gb": 7}},
            f"{AT}.mig-devices.1g10gb: '1g10gb' is not a slice name; write it like 1g.10gb, 3g, 1g+me or 1c.3g.40gb",
        ),
        (
            {**OFF, "device-filter": "A100"},
            f"{AT}.device-filter: 'A100' lacks the vendor, so mig-parted never matched it; write 0xA10010DE",
        ),
        (
            {**OFF, "device-filter": "H100"},
            (
                f"{AT}.device-filter: 'H100' is not a PCI id, so mig-parted never matched it; "
                "write it like 0x20B2 or 0x20B210DE"
            ),
        ),
        (
            {**OFF, "device-filter": ["0x10DE20B2"]},
            (
                f"{AT}.device-filter: '0x10DE20B2' is not an id of NVIDIA, so mig-parted never matched it; "
                "NVIDIA's end with 10DE: 0x20B210DE"
            ),
        ),
        (
            {**OFF, "device-filter": 0x20B210DE},
            f'{AT}.device-filter: 548540638 is not text; write the id in quotes: "0x20B210DE"',
        ),
        (
            {**ON, "device-filter": "0x20B710DE", "mig-devices": {"1g.10gb": 4}},
            f"{AT}.mig-devices.1g.10gb: none of the cards that device-filter lets through has a 1g.10gb (A30)",
        ),
        (
            {**ON, "device-filter": "0x20B210DE", "mig-devices": {"3c.4g.40gb": 1}},
            (
                f"{AT}.mig-devices.3c.4g.40gb: none of the cards that device-filter lets through has a 3c.4g.40gb "
                "(A100-SXM4-80GB)"
            ),
        ),
    ],
)
def test_refused(spec: dict[str, Any], line: str) -> None:
    """What mig-parted refuses, never matches or cannot make is refused in one line that says why."""
    assert line == str(refused(spec))


def test_a_filter_with_unknown_cards_is_given_the_benefit() -> None:
    """The card tables do not know every card: what may be right there is not refused."""
    spec = {**ON, "device-filter": ["0x20B710DE", "0xFFFF10DE"], "mig-devices": {"1g.10gb": 4}}
    assert 1 == len(imported(spec))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (
            {"version": "v1", "mig-configs": {"c": [OFF]}, "x": 1},
            "x: mig-parted files have no such field; there are version and mig-configs",
        ),
        (
            {"version": "v2", "mig-configs": {"c": [OFF]}},
            "version: 'v2' is not a version of mig-parted files; the only one is v1",
        ),
        (
            {"version": "v1", "mig-configs": {}},
            "mig-configs: there are no configurations by name; write them like all-1g.10gb: [...]",
        ),
        (
            {"version": "v1", "mig-configs": {"c": []}},
            "mig-configs.c: a configuration is a list with at least one entry; write it like - devices: all",
        ),
        (
            {"version": "v1", "mig-configs": {"c": ["all"]}},
            "mig-configs.c[0]: 'all' is not an entry; write it like {devices: all, mig-enabled: false}",
        ),
    ],
)
def test_malformed_files(value: dict[str, Any], line: str) -> None:
    """The frame of the file is checked as strictly as there."""
    with pytest.raises(LayoutError) as caught:
        layouts_from_mig_parted(value)
    assert line == str(caught.value)
