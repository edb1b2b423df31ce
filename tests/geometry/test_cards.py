"""The card tables: complete, consistent, and unknown where nobody published a figure."""

from collections import Counter

import pytest

from mig_manager.geometry.cards import ModeChange, compute_profiles, find_product, products, recognise
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.profiles import Placement

# Products and the names of their profiles as NVIDIA's own default configuration and user guide have them.
NAMES = {
    "A100-SXM4-40GB": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "A100-PCIE-80GB": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "H100-NVL": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "GH200-96GB": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "GH200-144GB": "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "H100-SXM5-64GB": "1g.8gb 1g.8gb+me 1g.16gb 2g.16gb 3g.32gb 4g.32gb 7g.64gb",
    "H200": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "B200": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "GB200-186GB": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "GB200-189GB": "1g.24gb 1g.24gb+me 1g.47gb 2g.47gb 3g.95gb 4g.95gb 7g.189gb",
    "B300": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "GB300": "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
    "A30": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "RTX-PRO-6000-Server": "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me "
    "2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me 4g.96gb 4g.96gb+gfx",
}
DEVICE_IDS = (
    "20B0 20B2 20B3 20B5 20B6 20B7 20BD 20F1 20F3 20F5 20F6 230E 2321 2322 2324 2329 232C 2330 2331 2335 2339 233A "
    "233B 233D 2342 2348 2901 2941 3182 31C2 2BB1 2BB4 2BB5 2BB3 2C31 2BB9"
)


@pytest.mark.parametrize(("model", "expected"), NAMES.items())
def test_profiles_have_the_names_that_the_driver_prints(model: str, expected: str) -> None:
    """Names are what users write and what the kubelet advertises."""
    table = find_product(model).table
    assert table is not None
    assert expected == " ".join(str(p) for p in table)


@pytest.mark.parametrize("device_id", DEVICE_IDS.split())
def test_every_documented_product_is_there(device_id: str) -> None:
    """Each PCI id with MIG is recognised."""
    assert recognise(int(device_id, 16), 81920) is not None


def test_a_device_id_alone_does_not_name_the_product() -> None:
    """0x2339 and 0x2941 span memory sizes; the nearest total decides."""
    found = [recognise(0x2339, gb * 1024) for gb in (64, 93, 96)] + [recognise(0x2941, 189471)]
    models = ["H100-SXM5-64GB", "H100-SXM5-94GB", "H100-SXM5-96GB", "GB200-186GB"]
    assert models == [p.model for p in found if p]


def test_an_unknown_device_id_is_no_product() -> None:
    """A GPU that no table knows is still usable live, so this is not an error."""
    assert recognise(0xFFFF, 81920) is None


@pytest.mark.parametrize(
    ("spelling", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("NVIDIA-NVIDIA H100 NVL", "H100-NVL"),
        ("Tesla T4", "T4"),
        ("H100_PCIe", "H100-PCIE-80GB"),
    ],
)
def test_models_are_found_under_nvmls_names_too(spelling: str, model: str) -> None:
    """Case, blanks, underscores and a doubled vendor name do not matter."""
    assert model == find_product(spelling).model


def test_unknown_and_ambiguous_models_name_what_can_be_meant() -> None:
    """The error lists candidates."""
    with pytest.raises(LayoutError, match="A100-SXM4-80GB") as unknown:
        find_product("A100-SXM5-80GB")
    with pytest.raises(LayoutError, match="GB200-186GB, GB200-189GB") as ambiguous:
        find_product("GB200")
    with pytest.raises(LayoutError, match=r"ones like it: A100-SXM4-40GB, [^H]*$"):
        find_product("A101")
    with pytest.raises(LayoutError, match="known ones: A100"):
        find_product("Voodoo2")
    assert ("UnknownModel", "AmbiguousModel") == (unknown.value.reason, ambiguous.value.reason)


def test_models_are_unique_and_every_row_cites_a_source() -> None:
    """Data is data with sources."""
    models = Counter(p.model for p in products())
    assert ({1}, True) == (set(models.values()), all(p.sources for p in products()))


def test_unpublished_figures_stay_unknown() -> None:
    """H20 memory per profile, B200 large profiles, RTX PRO 5000 placements: nobody published them."""
    h20, b200 = find_product("H20").table, find_product("B200").table
    assert h20 is not None
    assert b200 is not None
    assert [None] * 7 == [p.memory_mib for p in h20]
    assert (None, None) == (b200[9].memory_mib, b200[0].multiprocessors)
    assert find_product("RTX-PRO-5000-48GB").table is None


def test_mode_changes_by_generation() -> None:
    """Ampere needs a reset and remembers the mode; Hopper needs none and forgets it; Turing has no MIG."""
    found = {
        model: (a.mode_change, a.mode_survives_reboot)
        for model in ("A30", "H200", "RTX-PRO-6000-Server", "T4")
        for a in (find_product(model).architecture,)
    }
    expected = {
        "A30": (ModeChange.RESET, True),
        "H200": (ModeChange.IMMEDIATE, False),
        "RTX-PRO-6000-Server": (ModeChange.IMMEDIATE, False),
        "T4": (None, False),
    }
    assert expected == found


def test_compute_instance_profiles_are_those_of_the_a100() -> None:
    """Id, count and width per GPU instance as nvidia-smi mig -lcip lists them."""
    table = find_product("A100-SXM4-80GB").table
    assert table is not None
    listed = {str(p.slice_count): [(c.id, c.slice_count, c.instance_count) for c in p.compute] for p in table}
    expected = {
        "1": [(0, 1, 1)],
        "2": [(0, 1, 2), (1, 2, 1)],
        "3": [(0, 1, 3), (1, 2, 1), (2, 3, 1)],
        "4": [(0, 1, 4), (1, 2, 2), (3, 4, 1)],
        "7": [(0, 1, 7), (1, 2, 3), (2, 3, 2), (3, 4, 1), (4, 7, 1)],
    }
    assert expected == listed
    assert [14, 28, 42] == [c.multiprocessors for c in table[9].compute]


def test_an_unheard_of_width_has_its_full_compute_instance() -> None:
    """A future 5g still gets the one compute instance that every GPU instance has."""
    assert [(5, (Placement(0, 5),))] == [(c.slice_count, c.placements) for c in compute_profiles(5)]


def test_engine_totals_are_unknown_where_a_profile_is() -> None:
    """Nothing is concluded from half a table."""
    a100, h20, b200 = (find_product(m).table for m in ("A100-SXM4-80GB", "H20", "B200"))
    assert a100 is not None
    assert h20 is not None
    assert b200 is not None
    assert (1, 1, None) == (a100.engine_totals.ofa, h20.engine_totals.ofa, b200.engine_totals.ofa)


def test_tables_answer_by_id_and_refuse_what_is_not_there() -> None:
    """Ids mean different things per grid; a missing one is not an error to ``get``."""
    table = find_product("A30").table
    assert table is not None
    assert ("1g.6gb", None, "4g.24gb") == (str(table[14]), table.get(19), str(table.full))
