"""The structures that are filled: the simulation's own, with the layouts of nvml.h."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from mig_manager.sim.nvml import structures
from tests.sim.simulated import create_at, gpu, raw, seen

A100, RTX = "A100-SXM4-80GB", "RTX-PRO-6000-Server"
PROFILE_1G_GFX = 0xA


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (structures.PciInfo, pynvml.nvmlPciInfo_t),
        (structures.Memory, pynvml.c_nvmlMemory_t),
        (structures.MemoryV2, pynvml.c_nvmlMemory_v2_t),
        (structures.Utilization, pynvml.c_nvmlUtilization_t),
        (structures.Attributes, pynvml.c_nvmlDeviceAttributes),
        (structures.ProcessInfo, pynvml.c_nvmlProcessInfo_v2_t),
        (structures.ProcessInfo, pynvml.c_nvmlProcessInfo_v3_t),
        (structures.Placement, pynvml.c_nvmlGpuInstancePlacement_t),
        (structures.Placement, pynvml.c_nvmlComputeInstancePlacement_t),
        (structures.GpuInstanceProfileInfo, pynvml.c_nvmlGpuInstanceProfileInfo_t),
        (structures.GpuInstanceProfileInfoV2, pynvml.c_nvmlGpuInstanceProfileInfo_v2_t),
        (structures.GpuInstanceInfo, pynvml.c_nvmlGpuInstanceInfo_t),
        (structures.ComputeInstanceProfileInfo, pynvml.c_nvmlComputeInstanceProfileInfo_t),
        (structures.ComputeInstanceProfileInfoV2, pynvml.c_nvmlComputeInstanceProfileInfo_v2_t),
        (structures.ComputeInstanceInfo, pynvml.c_nvmlComputeInstanceInfo_t),
    ],
)
def test_layouts_are_those_of_nvidia_ml_py(own: type[ctypes.Structure], theirs: type[ctypes.Structure]) -> None:
    """Every field is at its place, with its size and its name."""
    assert _layout(theirs) == _layout(own)
    assert ctypes.sizeof(theirs) == ctypes.sizeof(own)


@pytest.mark.parametrize(
    ("structure", "version", "word"),
    [
        (structures.MemoryV2, 2, pynvml.nvmlMemory_v2),
        (structures.GpuInstanceProfileInfoV2, 2, pynvml.nvmlGpuInstanceProfileInfo_v2),
        (structures.GpuInstanceProfileInfoV3, 3, 0x03000098),
        (structures.ComputeInstanceProfileInfoV2, 2, pynvml.nvmlComputeInstanceProfileInfo_v2),
        (structures.ComputeInstanceProfileInfoV3, 3, 0x0300008C),
    ],
)
def test_version_words(structure: type[ctypes.Structure], version: int, word: int) -> None:
    """Size and version in one word, as nvml.h computes it."""
    assert word == structures.version_word(structure, version)


@pytest.mark.parametrize(
    ("model", "constant", "gpu_bits", "compute_bits"), [(A100, 0, 0, 0), (RTX, PROFILE_1G_GFX, 2, 1)]
)
def test_the_third_version_says_who_can_draw(model: str, constant: int, gpu_bits: int, compute_bits: int) -> None:
    """Capabilities are set for +gfx profiles alone; the rest is what the second version says."""
    with seen(model):
        second, third = structures.GpuInstanceProfileInfoV2(), structures.GpuInstanceProfileInfoV3()
        for version, info in ((2, second), (3, third)):
            info.version = structures.version_word(type(info), version)
            assert 0 == raw("nvmlDeviceGetGpuInstanceProfileInfoV", gpu(), constant, ctypes.byref(info))
        assert _values(second, third) == _values(third, second)
        assert gpu_bits == third.capabilities

        instance = create_at(gpu(), third.id, 0, 3 if model == RTX else 1)
        compute = structures.ComputeInstanceProfileInfoV3()
        compute.version = structures.version_word(structures.ComputeInstanceProfileInfoV3, 3)
        arguments = (instance, 0, 0, ctypes.byref(compute))
        assert 0 == raw("nvmlGpuInstanceGetComputeInstanceProfileInfoV", *arguments)
        assert (compute_bits, third.name) == (compute.capabilities, compute.name)


def _layout(structure: type[ctypes.Structure]) -> list[tuple[str, int, int]]:
    return [(name, field.offset, field.size) for name, *_ in structure._fields_ for field in [getattr(structure, name)]]


def _values(structure: Any, other: Any) -> dict[str, Any]:  # noqa: ANN401 - ctypes structures
    """The fields that both have, but for the version."""
    names = {name for name, *_ in structure._fields_} & {name for name, *_ in other._fields_}
    return {name: getattr(structure, name) for name in names - {"version"}}
