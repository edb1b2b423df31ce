"""What the C part calls: which machine it is, and what becomes of exceptions."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from mig_manager.sim.libnvml.entry import VARIABLE, Entry
from mig_manager.sim.model import devices
from mig_manager.sim.model.machine import Machine

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, DRIVER_NOT_LOADED, UNKNOWN = 1, 2, 3, 9, 999


class Caller:
    """Calls an entry as the C part does."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.entry = Entry(environ)

    def __call__(self, symbol: str, kinds: str = "", *values: int) -> int:
        """Call a function with the values of its arguments, and return its code."""
        arguments = (ctypes.c_uint64 * max(len(values), 1))(*values)
        return self.entry.call(symbol, kinds, ctypes.addressof(arguments))

    def count(self) -> tuple[int, int]:
        """Code and output of the function that counts cards."""
        count = ctypes.c_uint(77)
        return self("nvmlDeviceGetCount_v2", "p", ctypes.addressof(count)), count.value

    def begin(self) -> int:
        """Initialise."""
        return self("nvmlInitWithFlags", "u", 0)


@pytest.fixture
def two_machines(tmp_path: Path) -> tuple[str, str]:
    """Files of a machine with one card and of one with two."""
    for name, gpus in (("one", "A30"), ("two", "A30*2")):
        Machine.create(tmp_path / name, [gpus])
    return str(tmp_path / "one"), str(tmp_path / "two")


def test_the_machine_is_chosen_when_no_session_is_open(two_machines: tuple[str, str]) -> None:
    """An open session stays on its machine; the next one looks at the variable again."""
    environ = {VARIABLE: two_machines[0]}
    call = Caller(environ)
    assert (UNINITIALIZED, 77) == call.count()
    assert 0 == call.begin()
    environ[VARIABLE] = two_machines[1]
    assert 0 == call.begin()
    assert (0, 1) == call.count()
    assert [0, 0, UNINITIALIZED] == [call("nvmlShutdown") for _ in range(3)]
    assert 0 == call.begin()
    assert (0, 2) == call.count()


def test_what_is_not_modelled_is_not_supported_in_a_session_only(two_machines: tuple[str, str]) -> None:
    """Before the first session and after the last it is uninitialised, like everything else; it takes no arguments."""
    caller = Caller({VARIABLE: two_machines[0]})
    assert UNINITIALIZED == caller("nvmlDeviceGetFanSpeed")
    assert 0 == caller.begin()
    assert [NOT_SUPPORTED, 0, UNINITIALIZED] == [
        caller(name) for name in ("nvmlDeviceGetFanSpeed", "nvmlShutdown", "nvmlDeviceGetFanSpeed")
    ]


def test_without_the_variable_there_is_no_driver(capfd: pytest.CaptureFixture[str]) -> None:
    """One line says what to set."""
    assert [DRIVER_NOT_LOADED, UNINITIALIZED] == [Caller({}).begin(), Caller({})("nvmlShutdown")]
    expected = "$MIG_MANAGER_SIM is not set; set it to the file of a simulated machine (mig-manager sim create FILE)"
    assert f"simulated libnvidia-ml.so.1: nvmlInitWithFlags: {expected}\n" == capfd.readouterr().err


def test_handles_outlive_a_session_on_the_same_machine(two_machines: tuple[str, str]) -> None:
    """Programs keep handles over shutdown and initialisation; those of another machine mean nothing."""
    environ = {VARIABLE: two_machines[0]}
    call = Caller(environ)
    handle, minor = ctypes.c_uint64(), ctypes.c_uint()
    call.begin()
    assert 0 == call("nvmlDeviceGetHandleByIndex_v2", "up", 0, ctypes.addressof(handle))
    call("nvmlShutdown")
    call.begin()
    assert 0 == call("nvmlDeviceGetMinorNumber", "pp", handle.value, ctypes.addressof(minor))
    call("nvmlShutdown")
    environ[VARIABLE] = two_machines[1]
    call.begin()
    assert INVALID_ARGUMENT == call("nvmlDeviceGetMinorNumber", "pp", handle.value, ctypes.addressof(minor))


def test_null_is_an_argument_error(two_machines: tuple[str, str]) -> None:
    """A pointer of 0 is NULL; a number of 0 is a number."""
    call = Caller({VARIABLE: two_machines[0]})
    call.begin()
    assert INVALID_ARGUMENT == call("nvmlDeviceGetCount_v2", "p", 0)
    assert INVALID_ARGUMENT == call("nvmlDeviceGetHandleByIndex_v2", "up", 0, 0)


def test_null_may_also_mean_something(two_machines: tuple[str, str]) -> None:
    """Some functions take NULL for an array and then say its size alone."""
    call = Caller({VARIABLE: two_machines[0]})
    handle, count = ctypes.c_uint64(), ctypes.c_uint()
    call.begin()
    call("nvmlDeviceGetHandleByIndex_v2", "up", 0, ctypes.addressof(handle))
    arguments = (handle.value, 14, 0, ctypes.addressof(count))
    assert 0 == call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", "pupp", *arguments)
    assert 4 == count.value


def test_a_machine_that_is_damaged_later_is_an_unknown_error(
    two_machines: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A session that is open goes on when the file does."""
    file = Path(two_machines[0])
    good = file.read_text()
    call = Caller({VARIABLE: str(file)})
    call.begin()
    file.write_text("{")
    assert (UNKNOWN, 77) == call.count()
    file.write_text(good)
    assert (0, 1) == call.count()
    expected = f"nvmlDeviceGetCount_v2: {file}: this is not the state of a simulated machine; create it anew"
    assert f"simulated libnvidia-ml.so.1: {expected}\n" == capfd.readouterr().err


def test_a_first_machine_that_is_missing_can_come_later(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed initialisation is not remembered. The name may be relative."""
    monkeypatch.chdir(tmp_path)
    call = Caller({VARIABLE: "box"})
    assert DRIVER_NOT_LOADED == call.begin()
    assert f"{tmp_path}/box: there is no simulated machine" in capfd.readouterr().err
    Machine.create("box", ["A30"])
    assert 0 == call.begin()


def test_no_exception_leaves_it(
    two_machines: tuple[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of the simulation is an unknown error with its traceback, never a success."""

    def broken(*_: Any) -> int:  # noqa: ANN401 - whatever it is called with
        raise ZeroDivisionError("oh")

    call = Caller({VARIABLE: two_machines[0]})
    call.begin()
    monkeypatch.setattr(devices, "count", broken)
    assert (UNKNOWN, 77) == call.count()
    assert "ZeroDivisionError: oh" in capfd.readouterr().err
