"""Layouts are found by name, and every profile that ships can be made on the cards that it is for."""

from __future__ import annotations

import pytest

from mig_manager.api.catalog import choose, shipped_profiles
from mig_manager.geometry.cards import find_product, products
from mig_manager.geometry.derived import derived_layout
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode
from mig_manager.geometry.matching import matches
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.geometry.resolve import resolve
from mig_manager.geometry.state import Card
from mig_manager.resources import shipped

OWN = {
    "mine": Layout((GpuEntry(mig=MigMode.DISABLED),), "mine"),
    "inference": Layout((GpuEntry(mig=MigMode.UNMANAGED),), "inference"),
    "all-1g": Layout((GpuEntry(mig=MigMode.UNMANAGED),), "all-1g"),
}
# What each shipped profile leaves alone on purpose; every other product that can be cut is served.
NOT_SERVED = {
    "graphics": {p.model for p in products() if p.grid != "12-unit"},
    "mixed-fleet": {"A100-SXM-64GB", "H100-SXM5-64GB", "PG506-232", "B300", "GB300"},
}
SHIPPED = sorted(shipped_profiles())


def table_of(model: str) -> ProfileTable:
    table = find_product(model).table
    assert table is not None
    return table


def cards() -> list[Card]:
    """One card of every product that can be cut."""
    return [
        Card(
            index=index,
            uuid=f"GPU-{index}",
            model=product.model,
            name=f"NVIDIA {product.nvml_names[0]}",
            device_id=product.device_ids[0],
            bus_id=f"00000000:{index:02X}:00.0",
            memory_mib=product.memory_mib or (product.memory_gb or 0) * 1024,
            mig_current=True,
            mig_pending=True,
            table=product.table,
        )
        for index, product in enumerate(products())
        if product.table is not None
    ]


def fits(table: ProfileTable, wanted: list[int], taken: int = 0) -> bool:
    """Whether the profiles have places that do not overlap: every way is tried."""
    if not wanted:
        return True
    places = table[wanted[0]].placements
    return any(fits(table, wanted[1:], taken | p.mask) for p in places if not p.mask & taken)


def test_own_profiles_go_first() -> None:
    """A name that is one's own means one's own, also where a shipped or derived one is called the same."""
    for name, layout in OWN.items():
        assert layout is choose(name, OWN)


def test_then_shipped_then_derived() -> None:
    """Other names are looked for among the shipped profiles and then among the derived ones."""
    assert shipped_profiles()["inference"].layout is choose("inference")
    assert derived_layout("all-3g.40gb") == choose("all-3g.40gb", OWN)
    assert derived_layout("all-balanced") == choose("all-balanced", tables=[table_of("A30")])


def test_unknown() -> None:
    """An unknown name is refused with those of any origin that come near."""
    with pytest.raises(LayoutError, match="did you mean mine") as caught:
        choose("mines", OWN)
    assert "UnknownProfile" == caught.value.reason
    with pytest.raises(LayoutError, match="did you mean two-tenants"):
        choose("two-tenant")
    with pytest.raises(LayoutError, match=r"did you mean all-1g\.6gb"):
        choose("all-1g.8gb", tables=[table_of("A30")])
    with pytest.raises(LayoutError, match="did you mean all-balanced"):
        choose("balanced")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_say_what_they_are(name: str) -> None:
    """Each has a file of its name, a description and a source, and no name that a derived profile has."""
    profile = shipped_profiles()[name]
    assert shipped("profiles").joinpath(f"{name}.yaml").is_file()
    assert profile.description
    assert profile.sources
    with pytest.raises(LayoutError):
        derived_layout(name)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_can_be_made(name: str) -> None:
    """On every product a shipped profile is placeable, or leaves the card alone as expected."""
    left_alone = set()
    for card in cards():
        assert card.table is not None
        entry = next((e for e in shipped_profiles()[name].layout.gpus if matches(card, e.match)), None)
        if entry is None:
            left_alone.add(card.model)
            continue
        wanted = resolve(entry.slices, card.table, -(-card.memory_mib // 1024))
        profile_ids = [w.profile_id for w in wanted.slices]
        if wanted.fill is not None:
            profile_ids.append(wanted.fill.profile_id)
        assert fits(card.table, profile_ids), card.model
    mentioned = {card.model for card in cards()}
    assert NOT_SERVED.get(name, set()) & mentioned == left_alone
