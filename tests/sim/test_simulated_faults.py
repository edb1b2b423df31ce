"""Injected faults: which call of which function, with what effect, in whichever process."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.model.faults import SYMBOLS
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.nvml import installed
from tests.sim.simulated import answer, create_at, gpu, seen

A100 = "A100-SXM4-80GB"
CREATE_AT = "nvmlDeviceCreateGpuInstanceWithPlacement"


def test_only_the_calls_that_are_meant_fail() -> None:
    """Calls count from the moment of injection, beginning with 1; then the fault is used up."""
    with seen(A100) as machine:
        create_at(gpu(), 19, 0, 1)
        machine.inject(CREATE_AT, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[2, 3])
        create_at(gpu(), 19, 1, 1)
        for _ in range(2):
            with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
                create_at(gpu(), 19, 2, 1)
        create_at(gpu(), 19, 2, 1)
        assert [] == machine.read().faults
        assert 3 == len(machine.card(0).instances)


def test_every_call_fails_until_the_faults_are_cleared() -> None:
    """Without call numbers there is no end by itself."""
    with seen(A100) as machine:
        machine.inject("nvmlDeviceGetMigMode", code=NvmlCode.UNKNOWN)
        for _ in range(2):
            with answer(pynvml.NVML_ERROR_UNKNOWN):
                pynvml.nvmlDeviceGetMigMode(gpu())
        machine.clear_faults()
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu())


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_function_can_be_struck(symbol: str) -> None:
    """The fault comes before anything else the function does, so no argument is looked at."""
    with seen(A100) as machine:
        machine.inject(symbol, code=NvmlCode.TIMEOUT, calls=[1])
        assert NvmlCode.TIMEOUT == getattr(pynvml.nvmlLib, symbol)()


def test_a_driver_that_is_not_loaded_fails_init() -> None:
    """A failed initialisation does not count as one."""
    machine = Machine.create(None, [A100])
    machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED, calls=[1])
    with installed(machine):
        with answer(pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
            pynvml.nvmlInit()
        with answer(pynvml.NVML_ERROR_UNINITIALIZED):
            pynvml.nvmlDeviceGetCount()
        pynvml.nvmlInit()
        assert 1 == pynvml.nvmlDeviceGetCount()


def test_a_silent_mode_change_changes_nothing() -> None:
    """The call says success and the mode stays, which only reading back can tell."""
    with seen("H100-SXM5-80GB", mig=False) as machine:
        machine.inject("nvmlDeviceSetMigMode", silent=True, calls=[1])
        assert 0 == pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert [0, 0] == pynvml.nvmlDeviceGetMigMode(gpu())
        pynvml.nvmlDeviceSetMigMode(gpu(), 1)
        assert [1, 1] == pynvml.nvmlDeviceGetMigMode(gpu())


def test_latency_passes_before_the_answer_and_adds_up() -> None:
    """Delays of several faults add up; a delay alone lets the call succeed."""
    slept: list[float] = []
    machine = Machine.create(None, [A100])
    with installed(machine, sleep=slept.append):
        pynvml.nvmlInit()
        machine.inject("nvmlDeviceGetCount_v2", latency_ms=250, calls=[1, 2])
        machine.inject("nvmlDeviceGetCount_v2", latency_ms=1000, code=NvmlCode.UNKNOWN, calls=[2])
        assert 1 == pynvml.nvmlDeviceGetCount()
        with answer(pynvml.NVML_ERROR_UNKNOWN):
            pynvml.nvmlDeviceGetCount()
    assert [0.25, 1.25] == slept


def test_faults_live_in_the_file(tmp_path: Path) -> None:
    """Whoever opens the file next is struck, and the count goes on where it was."""
    path = tmp_path / "machine.json"
    Machine.create(path, [A100]).inject("nvmlDeviceGetCount_v2", code=NvmlCode.GPU_IS_LOST, calls=[2])
    with installed(Machine.open(path)):
        pynvml.nvmlInit()
        assert 1 == pynvml.nvmlDeviceGetCount()
    with installed(Machine.open(path)):
        pynvml.nvmlInit()
        with answer(pynvml.NVML_ERROR_GPU_IS_LOST):
            pynvml.nvmlDeviceGetCount()
        assert 1 == pynvml.nvmlDeviceGetCount()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"function": "nvmlDeviceGetFan", "code": 1}, "no function is called 'nvmlDeviceGetFan'; known ones: .*SetMig"),
        ({"function": CREATE_AT, "code": 77}, "77 is not a return code of NVML"),
        ({"function": CREATE_AT, "silent": True}, "cannot fail silently; without a code, these can: .*SetMigMode"),
        ({"function": "nvmlDeviceSetMigMode", "silent": True, "code": 3}, "cannot fail silently"),
        ({"function": CREATE_AT, "latency_ms": -1}, "a latency of -1 ms is not possible"),
        ({"function": CREATE_AT}, "a fault with neither code nor latency does nothing"),
        ({"function": CREATE_AT, "code": 3, "calls": []}, "calls \\[\\] mean no call"),
        ({"function": CREATE_AT, "code": 3, "calls": [0, 1]}, "calls \\[0, 1\\] mean no call; count calls from 1"),
    ],
)
def test_faults_that_cannot_be_are_refused(fault: dict[str, object], message: str) -> None:
    """A fault that would never strike is a mistake, and said to be one."""
    machine = Machine.create(None, [A100])
    with pytest.raises(MachineError, match=message):
        machine.inject(**fault)  # type: ignore[arg-type]
