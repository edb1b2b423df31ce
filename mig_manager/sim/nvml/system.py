"""Functions about the driver as a whole."""

from __future__ import annotations

from mig_manager.sim.model.store import Store
from mig_manager.sim.nvml.convert import Argument, Bodies, Handles, put, string_out, uint_out

BODIES = Bodies()
_CUDA_SINCE = ((580, 13000), (525, 12000), (0, 11000))  # first driver branch of each major version of CUDA


def _cuda(store: Store) -> int:
    branch = int(store.read().driver.split(".")[0])
    return next(cuda for first, cuda in _CUDA_SINCE if branch >= first)


@BODIES.named("nvmlSystemGetDriverVersion")
def _driver(store: Store, _: Handles, buffer: Argument, length: Argument) -> None:
    string_out(buffer, length, lambda: store.read().driver)


@BODIES.named("nvmlSystemGetNVMLVersion")
def _nvml(store: Store, _: Handles, buffer: Argument, length: Argument) -> None:
    string_out(buffer, length, lambda: f"{_cuda(store) // 1000}.{store.read().driver}")


@BODIES.named("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def _cuda_driver(store: Store, _: Handles, version: Argument) -> None:
    put(uint_out(version), _cuda(store))
