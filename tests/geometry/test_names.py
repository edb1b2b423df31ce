"""The grammar of slice names and the rule that computes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.geometry.cards import products
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName, gigabytes, memory_eighths, name_gb, same_memory

attributes = st.sampled_from(["", "+me", "-me", "+gfx", "+me.all", "+gfx,me"])
names = st.builds(
    SliceName,
    gpu=st.integers(1, 9),
    memory_gb=st.none() | st.integers(1, 999),
    attributes=attributes,
)


@given(names)
def test_parsing_a_formatted_name_gives_the_name_back(name: SliceName) -> None:
    """Parse and format are inverse."""
    assert name == SliceName.parse(str(name))


@given(st.integers(1, 9), st.integers(1, 9))
def test_compute_part_is_kept_only_where_it_says_something(compute: int, gpu: int) -> None:
    """``3c.3g`` is ``3g``; a compute instance wider than its GPU instance is refused."""
    text = f"{compute}c.{gpu}g.10gb"
    if compute > gpu:
        with pytest.raises(LayoutError, match=f"asks for {compute} compute slices of {gpu}"):
            SliceName.parse(text)
    else:
        assert (None if compute == gpu else compute) == SliceName.parse(text).compute


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g.10gb", SliceName(1, 10)),
        ("3g", SliceName(3)),
        ("1g+me", SliceName(1, None, "+me")),
        ("1g.24gb-me", SliceName(1, 24, "-me")),
        ("1g.24gb+me.all", SliceName(1, 24, "+me.all")),
        ("1c.3g.40gb", SliceName(3, 40, "", 1)),
        ("1g.24gb+me,gfx", SliceName(1, 24, "+gfx,me")),
        ("1g.0gb+me", SliceName(1, None, "+me")),
    ],
)
def test_names_of_nvidias_tools_are_understood(text: str, expected: SliceName) -> None:
    """Every form that nvidia-smi or mig-parted writes has a meaning."""
    assert expected == SliceName.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "g", "0g", "3gg", "10g.5gb", "1g.gb", "1g.10GB", "1g 10gb", "1g.10gb+", "1g.10gb+5", "1g.10gb+me-me"],
        *["1g.10gb+me,me", "1g.10gb+me,", "1g.10gb me", "1g.99999gb", "c.1g", "1g.10gb\n", "+me"],
    ],
)
def test_unreadable_names_are_refused_by_name(text: str) -> None:
    """The error quotes what was written."""
    with pytest.raises(LayoutError) as caught:
        SliceName.parse(text)
    assert ("InvalidSlice", True) == (caught.value.reason, repr(text) in str(caught.value))


@pytest.mark.parametrize(
    ("name", "resource"),
    [("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"), ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me")],
)
def test_resource_names_are_the_device_plugins(name: str, resource: str) -> None:
    """A plus sign cannot stand in a resource name and becomes a dot."""
    assert resource == SliceName.parse(name).resource


def test_shape_and_instance_leave_parts_out() -> None:
    """The shape has no memory, the instance no compute part."""
    name = SliceName.parse("1c.3g.40gb+me")
    assert ("1c.3g+me", "3g.40gb+me") == (str(name.shape), str(name.instance))


@pytest.mark.parametrize(
    ("memory_mib", "total_mib", "gb"),
    [
        (71168, 143771, 71),  # H200 3g: 70.5 is rounded up, not to even
        (22528, 183359, 23),  # B200 1g: 22.5
        (16384, 143771, 18),  # H200 1g: not what the MiB say
        (4864, 40960, 5),
        (10880, 95830, 12),
        (5952, 24576, 6),
        (24192, 97887, 24),
    ],
)
def test_names_follow_the_rule_with_halves_rounded_up(memory_mib: int, total_mib: int, gb: int) -> None:
    """The GB in a name is a share in eighths of the card's memory in GiB."""
    assert gb == name_gb(memory_eighths(memory_mib, total_mib), gigabytes(total_mib))


def test_every_published_figure_gives_the_name_in_the_tables() -> None:
    """Where MiB are known, the rule gives the same names as the eighths in the grid."""
    checked = 0
    for product in products():
        for profile in product.table or ():
            if profile.memory_mib is not None and product.memory_mib is not None:
                eighths = memory_eighths(profile.memory_mib, product.memory_mib)
                assert profile.name.memory_gb == name_gb(eighths, gigabytes(product.memory_mib)), product.model
                checked += 1
    assert checked > 80


@pytest.mark.parametrize(
    ("wanted", "eighths", "total", "same"),
    [
        (24, 1, 186, True),  # GB200 under its two reported totals
        (95, 4, 186, True),
        (79, 8, 80, True),  # A100 with ECC memory taken out
        (45, 2, 186, False),  # the B200 name is another product's
        (5, 1, 80, False),  # the A100-40GB name
        (96, 8, 94, False),  # the GH200 name on an H100 NVL
        (5, 2, 24, False),
    ],
)
def test_names_bear_small_differences_of_reported_memory_only(
    wanted: int, eighths: int, total: int, *, same: bool
) -> None:
    """A driver's view of the total may move a name, another product's name is not accepted."""
    assert same is same_memory(wanted, eighths, total)
