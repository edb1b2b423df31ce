"""The library as a whole: sessions, symbols, versions, error texts; and installing it."""

from __future__ import annotations

import pynvml
import pytest

from mig_manager.sim.model.faults import SYMBOLS
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.nvml import install, installed, uninstall
from mig_manager.sim.nvml.library import _BODIES, Library
from tests.sim.simulated import answer, gpu, seen

A100 = "A100-SXM4-80GB"
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_nothing_works_before_init_and_after_the_last_shutdown() -> None:
    """Initialisations are counted; outside them every function answers uninitialised."""
    with installed(Machine.create(None, [A100])):
        with answer(pynvml.NVML_ERROR_UNINITIALIZED):
            pynvml.nvmlDeviceGetCount()
        with answer(pynvml.NVML_ERROR_UNINITIALIZED):
            pynvml.nvmlShutdown()
        pynvml.nvmlInit()
        pynvml.nvmlInit()
        pynvml.nvmlShutdown()
        assert 1 == pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
        with answer(pynvml.NVML_ERROR_UNINITIALIZED):
            pynvml.nvmlDeviceGetCount()


def test_two_threads_cannot_end_one_session() -> None:
    """Whoever comes second is told, and the next initialisation counts from nothing."""
    machine = Machine.create(None, [A100])
    library = Library(machine.store, sleep=lambda _: others.append(library.invoke("nvmlShutdown", [])))
    others: list[int] = []
    machine.inject("nvmlShutdown", latency_ms=5, calls=[1])

    assert 0 == library.invoke("nvmlInitWithFlags", [0])
    assert (pynvml.NVML_ERROR_UNINITIALIZED, [0]) == (library.invoke("nvmlShutdown", []), others)
    assert not library.in_use
    assert 0 == library.invoke("nvmlInitWithFlags", [0])
    assert library.in_use


def test_uninstalling_leaves_nvidia_ml_py_as_it_was() -> None:
    """No library, no function pointer and no error text of the simulation stays behind."""
    texts = dict(pynvml.NVMLError._errcode_to_string)
    with seen(A100):
        assert "In use by another client" == str(pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE))
    assert pynvml.nvmlLib is None
    assert {} == pynvml._nvmlGetFunctionPointer_cache
    assert texts == pynvml.NVMLError._errcode_to_string
    uninstall()


def test_a_second_machine_is_refused_while_one_is_installed() -> None:
    """Handles of two machines never mix."""
    with seen(A100), pytest.raises(MachineError, match="has a library loaded already; uninstall that"):
        install(Machine.create(None, [A100]))


def test_every_body_has_a_symbol_and_every_symbol_a_body() -> None:
    """What can be injected is exactly what is implemented."""
    assert {*SYMBOLS} == {*_BODIES, "nvmlInitWithFlags", "nvmlShutdown"}


def test_functions_that_are_not_there_are_not_found() -> None:
    """An unknown symbol looks like one that an old driver lacks."""
    with seen(A100), answer(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
        pynvml.nvmlDeviceGetFanSpeed(gpu())


@pytest.mark.parametrize(
    ("driver", "nvml", "cuda"),
    [
        ("580.95.05", "13.580.95.05", 13000),
        ("535.161.07", "12.535.161.07", 12000),
        ("470.82.01", "11.470.82.01", 11000),
    ],
)
def test_versions_belong_together(driver: str, nvml: str, cuda: int) -> None:
    """NVML's and CUDA's versions follow the driver's."""
    with seen(A100, driver=driver):
        assert driver == pynvml.nvmlSystemGetDriverVersion()
        assert nvml == pynvml.nvmlSystemGetNVMLVersion()
        assert (cuda, cuda) == (pynvml.nvmlSystemGetCudaDriverVersion(), pynvml.nvmlSystemGetCudaDriverVersion_v2())


def test_error_texts_are_those_of_nvml() -> None:
    """Codes that nvidia-ml-py does not know are asked of the library, and unknown ones are named by number."""
    with seen(A100):
        assert "Insufficient Resources" == str(pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES))
        assert "Success" == pynvml.nvmlErrorString(0)
        assert "Unknown NVML error code: 4711" == pynvml.nvmlErrorString(4711)
