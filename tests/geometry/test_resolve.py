"""What slice requests mean on a given card."""

import pytest

from mig_manager.geometry.cards import find_product
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.resolve import Wanted, WantedLayout, find_profile, place_compute, resolve


def on(model: str, *requests: SliceRequest) -> WantedLayout:
    product = find_product(model)
    assert product.table is not None
    assert product.memory_gb is not None
    return resolve(requests, product.table, product.memory_gb)


def ask(name: str, count: int = 1, **more: object) -> SliceRequest:
    return SliceRequest(SliceName.parse(name), count, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "name", "profile_id"),
    [
        ("A100-SXM4-80GB", "1g", 19),
        ("A100-SXM4-80GB", "1g.20gb", 15),
        ("A100-SXM4-80GB", "1g+me", 20),
        ("A100-SXM4-40GB", "1g.10gb", 15),
        ("A30", "1g", 14),
        ("A30", "2g+me", 6),
        ("RTX-PRO-6000-Server", "1g+gfx", 47),
        ("RTX-PRO-6000-Server", "1g-me", 67),
        ("GB200-186GB", "1g.24gb", 19),
        ("GB200-189GB", "1g.23gb", 19),
        ("GB200-186GB", "7g.189gb", 0),
        ("H200", "3g.71gb", 9),
        ("B200", "1g.23gb", 19),
    ],
)
def test_a_name_means_the_cards_own_profile(model: str, name: str, profile_id: int) -> None:
    """Shapes and names resolve per card, also under a slightly different reported memory."""
    assert (Wanted(profile_id, (int(name[0]),)),) == on(model, ask(name)).slices


@pytest.mark.parametrize(
    ("model", "name"),
    [("A100-SXM4-80GB", "1g.5gb"), ("A30", "3g"), ("A30", "1g.5gb"), ("H100-NVL", "7g.96gb"), ("H200", "1g+gfx")],
)
def test_a_name_of_another_product_is_refused(model: str, name: str) -> None:
    """The error says where it stands and what the card offers."""
    with pytest.raises(LayoutError, match=r"no profile .*it offers 1g\.") as caught:
        on(model, ask("1g"), ask(name))
    assert ("ProfileNotOnGPU", "slices[1]") == (caught.value.reason, caught.value.path)


def test_double_memory_is_asked_for_by_word_on_any_card() -> None:
    """``1g`` with double memory is the 1g of twice the share, where it exists."""
    request = ask("1g", double_memory=True)
    assert (Wanted(15, (1,)),) == on("H200", request).slices
    with pytest.raises(LayoutError, match="no profile 1g with double memory"):
        on("A30", request)


def test_count_and_fill_are_kept_apart() -> None:
    """``max`` is decided by the planner, which knows what fits."""
    layout = on("A100-SXM4-80GB", ask("3g"), SliceRequest(SliceName(1), "max"))
    assert WantedLayout((Wanted(9, (3,)),), Wanted(19, (1,))) == layout


def test_pins_must_be_possible_starts() -> None:
    """The error lists the starts there are."""
    assert (Wanted(9, (3,), 4),) == on("A100-SXM4-80GB", ask("3g", start=4)).slices
    with pytest.raises(LayoutError, match=r"3g\.40gb cannot start at 2; it can start at 0, 4") as caught:
        on("A100-SXM4-80GB", ask("3g", start=2))
    assert "InvalidPlacement" == caught.value.reason


def test_compute_layouts_are_checked_against_the_gpu_instance() -> None:
    """Widths must exist and fit together."""
    assert (Wanted(9, (2, 1)),) == on("A100-SXM4-80GB", ask("3g", compute=(1, 2))).slices
    with pytest.raises(LayoutError, match=r"a 4g\.40gb has no compute instance of 3 slices; it has 1c, 2c, 4c"):
        on("A100-SXM4-80GB", ask("4g", compute=(3,)))
    with pytest.raises(LayoutError, match=r"compute instances 2c, 2c do not fit into a 3g\.40gb") as caught:
        on("A100-SXM4-80GB", ask("3g", compute=(2, 2)))
    assert "ComputeDoesNotFit" == caught.value.reason


def test_compute_instances_share_gpu_instances_as_mig_parted_packs_them() -> None:
    """Widest first into the open GPU instance, a new one when the next does not fit."""
    layout = on("A100-SXM4-80GB", ask("1c.3g.40gb", 2), ask("2c.3g.40gb"))
    assert (Wanted(9, (2, 1)), Wanted(9, (1,))) == layout.slices


@pytest.mark.parametrize(
    "request_", [ask("1c.3g", start=0), ask("1c.3g", compute=(1,)), SliceRequest(SliceName.parse("1c.3g"), "max")]
)
def test_compute_names_take_only_a_count(request_: SliceRequest) -> None:
    """Pins and fills are about GPU instances."""
    with pytest.raises(LayoutError, match=r"write slice: 3g with compute: \[\.\.\.\] instead"):
        on("A100-SXM4-80GB", request_)
    with pytest.raises(LayoutError, match="no compute instance of 3 slices"):
        on("A100-SXM4-80GB", ask("3c.4g"))


def test_compute_instances_are_placed_around_what_is_there() -> None:
    """The lowest free starts are taken; no room is no answer."""
    profiles = find_product("A100-SXM4-80GB").table
    assert profiles is not None
    seven = profiles[0].compute
    assert (Placement(0, 4), Placement(4, 3)) == place_compute(seven, (4, 3))
    assert (Placement(2, 2),) == place_compute(seven, (2,), 0b1)
    assert place_compute(profiles[9].compute, (2,), 0b1) is None


def test_a_card_without_memory_of_its_own() -> None:
    """A driver that does not say how much memory the card has leaves shapes to be told by their slices alone."""
    table = find_product("A100-SXM4-80GB").table
    assert table is not None
    assert "1g.10gb" == str(find_profile(SliceName.parse("1g"), table, 0))


def test_memory_beyond_all_cards() -> None:
    """A senseless total is compared like any other, without counting up to it."""
    table = find_product("A100-SXM4-80GB").table
    assert table is not None
    with pytest.raises(LayoutError, match=r"this card has no profile 1g\.77gb"):
        find_profile(SliceName.parse("1g.77gb"), table, 2**34)
