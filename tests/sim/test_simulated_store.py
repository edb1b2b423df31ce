"""The state in a file: shared by processes and threads, whole at every moment, refused when damaged."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pynvml
import pytest
from pytest_mock import MockerFixture

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError, decode, encode
from mig_manager.sim.nvml import installed
from tests.sim.simulated import create_at, gpu

A100 = "A100-SXM4-80GB"

ANOTHER_PROCESS = """
import ctypes, sys
import pynvml
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed

path, profile, rounds, first_start = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with installed(Machine.open(path)):
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    for _ in range(rounds):
        for start in (first_start, first_start + 1):
            placement = pynvml.c_nvmlGpuInstancePlacement_t(start, 1)
            made = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, ctypes.byref(placement))
            pynvml.nvmlGpuInstanceDestroy(made)
    if rounds:
        placement = pynvml.c_nvmlGpuInstancePlacement_t(first_start + 4, 1)
        made = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, ctypes.byref(placement))
    else:
        made = pynvml.nvmlDeviceCreateGpuInstance(device, profile)
    print(pynvml.nvmlGpuInstanceGetInfo(made).placement.start)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "machine.json"


def another_process(path: Path, *arguments: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ANOTHER_PROCESS, str(path), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def test_a_machine_is_found_again(path: Path) -> None:
    """What was done to the machine is there for whoever opens the file next."""
    first = Machine.create(path, [A100], mig=True)
    first.add_instance(0, "3g", start=4)
    first.hold(0, start=4)
    first.inject("nvmlDeviceGetName", code=3, calls=[9])
    assert first.read() == Machine.open(path).read()


def test_the_text_form_loses_nothing() -> None:
    """Writing and reading give an equal state."""
    machine = Machine.create(None, [A100, "T4"], mig=True)
    machine.add_instance(0, "3g", compute_widths=(1, 1))
    machine.hold(0, start=4, visible=False)
    machine.inject("nvmlShutdown", latency_ms=5)
    assert machine.read() == decode(encode(machine.read()))


def test_an_existing_machine_is_not_overwritten_by_mistake(path: Path) -> None:
    """Creating over a file must be asked for."""
    Machine.create(path, [A100])
    with pytest.raises(MachineError, match=r"machine\.json exists; choose another file"):
        Machine.create(path, ["A30"])
    assert "A30" == Machine.create(path, ["A30"], overwrite=True).card(0).model


def test_other_processes_see_and_change_the_same_machine(path: Path) -> None:
    """An instance made in another process is there, and the next default place takes it into account."""
    Machine.create(path, [A100], mig=True)
    with installed(Machine.open(path)):
        pynvml.nvmlInit()
        create_at(gpu(), 19, 6, 1)
        with another_process(path, 19, 0, 0) as other:
            assert "4\n" == other.communicate()[0]
        assert 5 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 19)


def test_two_processes_at_once_lose_no_change(path: Path) -> None:
    """Processes that create and destroy at the same time never overwrite each other's work."""
    machine = Machine.create(path, [A100], mig=True)
    processes = [another_process(path, 19, 15, start) for start in (0, 2)]
    starts = [int(p.communicate()[0]) for p in processes]
    assert [0, 0] == [p.returncode for p in processes]
    assert [4, 6] == sorted(starts) == sorted(i.start for i in machine.card(0).instances)
    assert 2 + 2 * 15 * 2 == machine.read().generation


@pytest.mark.parametrize("in_file", [True, False])
def test_threads_lose_no_change(path: Path, in_file: bool) -> None:
    """Threads on one machine each make their instance and find it as their own."""
    machine = Machine.create(path if in_file else None, [A100], mig=True)
    found: list[bool] = []

    def work(start: int) -> None:
        for _ in range(5):
            instance = create_at(gpu(), 19, start, 1)
            found.append(start == pynvml.nvmlGpuInstanceGetInfo(instance).placement.start)
            pynvml.nvmlGpuInstanceDestroy(instance)

    with installed(machine):
        pynvml.nvmlInit()
        threads = [threading.Thread(target=work, args=(start,)) for start in range(7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [True] * 35 == found
    assert [] == machine.card(0).instances


def test_a_failed_change_leaves_the_state(path: Path) -> None:
    """An exception in the middle of a change undoes it, in the file and in what readers see."""
    machine = Machine.create(path, [A100])
    before = path.read_text()

    def fail() -> None:
        with machine.change() as state:
            state.cards.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert before == path.read_text()
    assert 1 == len(machine.read().cards)


@pytest.mark.skipif(sys.platform != "linux", reason="lists the open files of a process as Linux does")
def test_a_child_that_is_forked_in_the_middle_locks_nobody_out(path: Path) -> None:
    """It has the lock's descriptor for as long as it lives: the lock ends with the change all the same."""
    machine = Machine.create(path, ["A30"])
    lock = path.with_name(f"{path.name}.lock")
    with machine.change():
        held = [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.resolve() == lock.resolve()]
        inherited = [os.dup(descriptor) for descriptor in held]
    assert 1 == len(inherited)
    with lock.open() as another:
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(inherited[0])


def test_a_machine_that_is_reached_by_a_link_is_one_machine(path: Path) -> None:
    """What is changed by one name is seen by the other, and the link is a link afterwards."""
    Machine.create(path, [A100], mig=True)
    link = path.with_name("link.sim")
    link.symlink_to(path.name)
    Machine.open(link).add_instance(0, "1g", start=0)
    Machine.open(path).add_instance(0, "1g", start=1)
    assert link.is_symlink()
    assert 2 == len(Machine.open(link).card(0).instances)
    assert [] == list(path.parent.glob("link.sim.*"))


def test_a_change_inside_a_change_is_refused(path: Path) -> None:
    """It would wait for itself for ever, so it is an error at once, and the outer change still counts."""
    machine = Machine.create(path, [A100])
    with machine.change() as state:
        state.driver = "999"
        with pytest.raises(RuntimeError, match="inside a change"):
            machine.reboot()
    assert ("999", 1) == (machine.read().driver, machine.read().boots)


def test_every_change_is_seen_however_fast_it_follows(path: Path, mocker: MockerFixture) -> None:
    """Readers notice two changes within one tick of the clock, even when the file looks the same from outside."""
    mocker.patch("time.time_ns", return_value=10**18)
    machine = Machine.create(path, [A100])
    reader = Machine.open(path)
    for digit in range(10):
        for driver in ("x", f"{digit}"):  # two, because file systems give the number of a freed file out again
            with machine.change() as state:
                state.driver = driver
        assert f"{digit}" == reader.read().driver


def test_what_readers_hold_does_not_change_under_them() -> None:
    """A state that was read stays as it was read."""
    machine = Machine.create(None, [A100])
    before = machine.read()
    machine.reboot()
    assert before.boot_id != machine.read().boot_id


def test_an_unchanged_file_is_not_parsed_again(path: Path) -> None:
    """Reading twice gives the very same state, so reading is cheap."""
    Machine.create(path, [A100])
    machine = Machine.open(path)
    assert machine.read() is machine.read()


def damaged(valid: str) -> dict[str, tuple[bytes, str]]:
    document = json.loads(valid)
    without_cards = {**document, "machine": {**document["machine"], "cards": None}}
    unknown_field = {**document, "machine": {**document["machine"], "colour": "green"}}
    return {
        "empty": (b"", "machine.json: this is not the state of a simulated machine; create it anew"),
        "cut": (valid[: len(valid) // 2].encode(), "machine.json: this is not the state"),
        "other": (b"[1]", "machine.json: this is not the state"),
        "nothing": (b"{}", "machine.json: this is not the state"),
        "binary": (b"\xff\xfe\x00", "machine.json: not a text file"),
        "newer": (json.dumps({**document, "schema": 2}).encode(), "machine.json: schema 2 is not 1"),
        "cards": (json.dumps(without_cards).encode(), "machine.json: the state of the simulated machine is damaged"),
        "field": (json.dumps(unknown_field).encode(), "damaged .*colour"),
    }


@pytest.mark.parametrize("kind", ["empty", "cut", "other", "nothing", "binary", "newer", "cards", "field"])
def test_a_damaged_file_is_refused_by_name(path: Path, kind: str) -> None:
    """Readers and writers name the file and say what is wrong, and leave it as it is."""
    machine = Machine.create(path, [A100])
    content, message = damaged(path.read_text())[kind]
    path.write_bytes(content)
    with pytest.raises(MachineError, match=message):
        Machine.open(path)
    with pytest.raises(MachineError, match=message):
        machine.reboot()
    assert content == path.read_bytes()


def test_a_file_damaged_later_is_refused_every_time(path: Path) -> None:
    """What was read before the damage is never taken for the present state."""
    machine = Machine.create(path, [A100])
    machine.read()
    path.write_text("{")
    for _ in range(2):
        with pytest.raises(MachineError, match="not the state of a simulated machine"):
            machine.read()


def test_a_missing_file_says_how_to_make_one(path: Path) -> None:
    """Opening what is not there names the command that creates it."""
    with pytest.raises(MachineError, match="there is no simulated machine; create one: mig-manager sim create"):
        Machine.open(path)


def test_unusable_paths_are_one_line_errors(tmp_path: Path, path: Path) -> None:
    """The operating system's reason is told with the path."""
    with pytest.raises(MachineError, match=r"reading .*: Is a directory"):
        Machine.open(tmp_path)
    missing = r"writing .*/machine\.json: there is no directory .*/missing; make it first"
    with pytest.raises(MachineError, match=missing):
        Machine.create(tmp_path / "missing" / "machine.json", [A100])
    path.with_name("machine.json.tmp").mkdir()
    with pytest.raises(MachineError, match=r"writing .*machine\.json: Is a directory"):
        Machine.create(path, [A100])
