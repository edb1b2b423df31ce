"""Derived profiles exist for every card, known or not, and mean there what their names say."""

from __future__ import annotations

import re

import pytest

from mig_manager.geometry.cards import Product, find_product, products
from mig_manager.geometry.derived import derived_layout, derived_names, from_label_value, label_value
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import GpuInstanceProfile, Placement, ProfileTable
from mig_manager.geometry.resolve import find_profile

CUT = [p for p in products() if p.table is not None]
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def table_of(model: str) -> ProfileTable:
    table = find_product(model).table
    assert table is not None
    return table


def two_slice_table() -> ProfileTable:
    """A card of a kind that no release knows: two compute slices."""
    one = GpuInstanceProfile(14, 0, SliceName(1, 16), 1, 2, (Placement(0, 1), Placement(1, 1)))
    return ProfileTable(2, (one, GpuInstanceProfile(0, 1, SliceName(2, 32), 2, 1, (Placement(0, 2),))))


def test_names_of_an_a100() -> None:
    """A card's derived names are its shapes, its full names, and the two that need no slice."""
    expected = [
        *("all-1g", "all-1g.me", "all-2g", "all-3g", "all-4g", "all-7g"),
        *("all-1g.10gb", "all-1g.10gb.me", "all-1g.20gb", "all-2g.20gb", "all-3g.40gb", "all-4g.40gb", "all-7g.80gb"),
        *("all-balanced", "all-disabled"),
    ]
    assert expected == derived_names(table_of("A100-SXM4-80GB"))


def test_names_of_a_card_that_no_release_knows() -> None:
    """Names come from the card's own table; balanced is offered only where it is defined."""
    assert ["all-1g", "all-2g", "all-1g.16gb", "all-2g.32gb", "all-disabled"] == derived_names(two_slice_table())


@pytest.mark.parametrize("product", CUT, ids=lambda p: p.model)
def test_every_name_is_a_label_value_and_a_layout(product: Product) -> None:
    """What is offered for a card can be written into a label and is understood, with and without the card at hand."""
    assert product.table is not None
    for name in derived_names(product.table):
        assert LABEL_VALUE.fullmatch(name)
        assert derived_layout(name, [product.table]) == derived_layout(name)


@pytest.mark.parametrize("product", CUT, ids=lambda p: p.model)
def test_a_name_leads_back_to_its_slice(product: Product) -> None:
    """From the name of every profile, its label value finds the same profile on the card again."""
    assert product.table is not None
    assert product.memory_gb is not None
    for profile in product.table:
        layout = derived_layout(f"all-{label_value(profile.name)}", [product.table])
        (entry,) = layout.gpus
        (request,) = entry.slices
        assert ("max", None) == (request.count, entry.match)
        assert profile == find_profile(request.slice, product.table, product.memory_gb)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("1g.10gb", "1g.10gb"),
        ("1g+me", "1g.me"),
        ("1g.24gb+me.all", "1g.24gb.me.all"),
        ("2g.48gb-me", "2g.48gb-me"),
        ("1g+gfx,me", "1g.gfx_me"),
        ("1c.3g.40gb", "1c.3g.40gb"),
    ],
)
def test_label_values(name: str, label: str) -> None:
    """Slice names and label values lead to each other; a plus is written as a dot."""
    assert label == label_value(SliceName.parse(name))
    assert SliceName.parse(name) == from_label_value(label)


def test_balanced_serves_cards_of_several_kinds() -> None:
    """One layout holds what is balanced on seven and on four compute slices, by shape."""
    one, two, three = SliceName(1), SliceName(2), SliceName(3)
    seven = (SliceRequest(one, 2), SliceRequest(two), SliceRequest(three))
    four = (SliceRequest(one, 2), SliceRequest(two))
    expected = Layout(
        (GpuEntry(seven, Match(compute_slices=7)), GpuEntry(four, Match(compute_slices=4))), "all-balanced"
    )
    assert expected == derived_layout("all-balanced", [table_of("A30"), table_of("H200")])


def test_disabled() -> None:
    """The layout all-disabled switches MIG off everywhere."""
    assert Layout((GpuEntry(mig=MigMode.DISABLED),), "all-disabled") == derived_layout("all-disabled", [])


def test_one_card_that_understands_is_enough() -> None:
    """On a mixed node a name may be meant for some of the cards; whether the others can is the planner's answer."""
    assert "all-1g.6gb" == derived_layout("all-1g.6gb", [table_of("A100-SXM4-80GB"), table_of("A30")]).name


def test_a_slightly_different_memory_is_understood() -> None:
    """A name from another driver, which reports a little more memory, still finds its slice."""
    assert "all-1g.24gb" == derived_layout("all-1g.24gb", [table_of("GB200-186GB")]).name


@pytest.mark.parametrize(
    "name", ["balanced", "all-", "all-3gg", "all-1c.3g", "all-enabled", "1g.10gb", "", "all-all-1g", "all-1g.10gb+me+x"]
)
def test_other_names_are_unknown(name: str) -> None:
    """What is not a derived name is refused, also when the cards are not known."""
    with pytest.raises(LayoutError, match="no profile is called") as caught:
        derived_layout(name)
    assert "UnknownProfile" == caught.value.reason


def test_unknown_on_these_cards() -> None:
    """A name that none of the cards understands is refused with those that come near."""
    with pytest.raises(LayoutError) as caught:
        derived_layout("all-1g.12gb", [table_of("A100-SXM4-80GB")])
    assert "UnknownProfile" == caught.value.reason
    assert "did you mean all-1g.20gb or all-1g.10gb or all-1g.10gb.me?" == caught.value.hint
    with pytest.raises(LayoutError, match="all-balanced"):
        derived_layout("all-balanced", [two_slice_table()])


def test_without_near_names_all_are_listed() -> None:
    """Where nothing comes near, the error lists what there is."""
    with pytest.raises(LayoutError, match=r"known ones are all-1g, all-1g\.16gb, all-2g, all-2g\.32gb, all-disabled"):
        derived_layout("xyz", [two_slice_table()])
