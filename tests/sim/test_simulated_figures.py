"""The figures of simulated cards: published ones as they are, nominal ones that still give the right names."""

from __future__ import annotations

import math

import pynvml
import pytest

from mig_manager.geometry.cards import Product, products
from mig_manager.sim.model.hardware import hardware, parse_models
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from tests.sim.simulated import create_at, full_device, gpu, seen

WITH_TABLE = [p for p in products() if p.table is not None]


def name_as_tools_compute_it(slices: int, memory_mib: int, total_mib: int, attributes: str) -> str:
    """The rule of NVIDIA's go-nvlib: eighths of the card rounded up, gigabytes rounded half up."""
    fraction = math.ceil(memory_mib / total_mib * 8) / 8
    gb = math.floor(fraction * math.ceil(total_mib / 1024) + 0.5)
    return f"{slices}g.{gb}gb{attributes}"


@pytest.mark.parametrize("product", WITH_TABLE, ids=lambda p: p.model)
def test_names_computed_from_the_figures_are_the_names_of_the_table(product: Product) -> None:
    """Programs that compute names from NVML's figures arrive at the product's names."""
    assert product.table is not None
    with seen(product.model, mig=False):
        total = pynvml.nvmlDeviceGetMemoryInfo(gpu()).total // 2**20
        for profile in product.table:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), profile.id)
            computed = name_as_tools_compute_it(info.sliceCount, info.memorySizeMB, total, profile.attributes)
            assert str(profile.name) == computed
            assert f"MIG {profile.name}" == info.name


@pytest.mark.parametrize(
    ("model", "profile_id", "name"),
    [("H200", 9, "3g.71gb"), ("B200", 19, "1g.23gb"), ("B300", 9, "3g.135gb"), ("GB200-186GB", 14, "2g.47gb")],
)
def test_halves_are_rounded_up_in_names(model: str, profile_id: int, name: str) -> None:
    """Where the share ends in exactly one half, Python's own rounding would give another name."""
    with seen(model):
        assert f"MIG {name}" == pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(), profile_id).name


@pytest.mark.parametrize("product", WITH_TABLE, ids=lambda p: p.model)
def test_published_figures_are_reported_as_published(product: Product) -> None:
    """A nominal figure never replaces a known one, and no figure is missing."""
    table = hardware(product.model).table
    assert product.table is not None
    assert table is not None
    for published, simulated in zip(product.table, table, strict=True):
        assert published.memory_mib in (None, simulated.memory_mib)
        assert published.multiprocessors in (None, simulated.multiprocessors)
        for kind in ("copy", "decoder", "encoder", "jpeg", "ofa"):
            assert getattr(published.engines, kind) in (None, getattr(simulated.engines, kind))
            assert getattr(simulated.engines, kind) is not None
        assert all(c.multiprocessors for c in simulated.compute)


def test_every_profile_is_reported_as_an_a100_reports_it() -> None:
    """All figures of a profile reach nvidia-ml-py, in both versions of the structure."""
    with seen("A100-SXM4-80GB"):
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE)
        plain = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE, version=1)
    for found in (info, plain):
        assert (9, 0, 3, 2, 42) == (
            found.id,
            found.isP2pSupported,
            found.sliceCount,
            found.instanceCount,
            found.multiprocessorCount,
        )
        assert (3, 2, 0, 0, 0) == (
            found.copyEngineCount,
            found.decoderCount,
            found.encoderCount,
            found.jpegCount,
            found.ofaCount,
        )
        assert 40192 == found.memorySizeMB


@pytest.mark.parametrize(("width", "name"), [(1, "NVIDIA H200 MIG 1c.3g.71gb"), (3, "NVIDIA H200 MIG 3g.71gb")])
def test_mig_devices_are_named_after_card_and_slice(width: int, name: str) -> None:
    """A compute instance narrower than its GPU instance says so in its name."""
    with seen("H200"):
        profile_id = {1: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE, 3: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE}
        device = full_device(create_at(gpu(), 9, 0, 4), profile_id[width])
        assert name == pynvml.nvmlDeviceGetName(device)


def test_a_tesla_keeps_its_name() -> None:
    """Cards of the Tesla brand have no NVIDIA before their name."""
    with seen("T4", mig=False):
        assert "Tesla T4" == pynvml.nvmlDeviceGetName(gpu())


def test_models_are_multiplied_and_found_by_other_spellings() -> None:
    """MODEL*N means N cards, and NVML's own name does as well as ours."""
    assert ["A100-SXM4-80GB", "A100-SXM4-80GB", "A30"] == parse_models(["nvidia a100-sxm4-80gb*2", "A30"])


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (["A30*"], "'A30\\*' has no number after \\*; write it like"),
        (["A30*0"], "has no number"),
        (["A30*x"], "has no number"),
        (["A30*" + "9" * 5000], "has no number"),
        (["A30*999999999"], "a machine with 999999999 cards cannot be simulated; give it 1 to 16"),
        (["A31"], "no card is called 'A31'; known"),
        (["RTX-PRO-5000-48GB"], "RTX-PRO-5000-48GB cannot be simulated: its placements are not published; known: .*T4"),
        ([], "a machine with 0 cards cannot be simulated"),
        (["A30*17"], "a machine with 17 cards cannot be simulated; give it 1 to 16"),
    ],
)
def test_impossible_machines_are_refused_in_words(gpus: list[str], message: str) -> None:
    """What cannot be simulated is refused with the reason and what to write instead."""
    with pytest.raises(MachineError, match=message):
        Machine.create(None, gpus)
