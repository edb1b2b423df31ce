"""Programs in C, which have no Python until the library brings one along."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mig_manager.sim.model.machine import Machine
from tests.libnvml.programs import output, run, seeing

PROFILE_1G = 19


def test_sessions_begin_and_end(library: Path, host: Path, machine: Machine) -> None:
    """Outside a session everything is uninitialised and no output is written; missing features are not supported."""
    expected = "1 1 77 | 0 0 3 4 | 0 1 1 | In use by another client, Unknown NVML error code: 4711\n"
    assert expected == output(host, "phases", env=seeing(library, machine))


def test_settings_for_other_pythons_do_not_matter(library: Path, host: Path, machine: Machine) -> None:
    """PYTHONHOME and PYTHONPATH are meant for other programs."""
    env = {**seeing(library, machine), "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "PYTHONSTARTUP": "/nowhere"}
    assert "1 1 77 | 0 0 3 4 |" in output(host, "phases", env=env)


def test_it_can_be_loaded_again_and_again(library: Path, host: Path, machine: Machine) -> None:
    """Unloading leaves the interpreter where it is, for symbols that are kept apart and such that are not."""
    assert "reloaded\n" == output(host, "reload", env=seeing(library, machine))


def test_threads_may_all_be_the_first(library: Path, host: Path, machine: Machine) -> None:
    """Threads that initialise at the same moment get one interpreter and count their sessions right."""
    assert "0 failed\n" == output(host, "threads", "32", env=seeing(library, machine))


def test_threads_and_processes_lose_no_change(library: Path, host: Path, machine: Machine) -> None:
    """Two processes with four threads each create and destroy on one card: what they kept is what is there."""
    command = [str(host), "work", "9", "4"]
    env = seeing(library, machine)
    at_work = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    kept = [int(process.communicate()[0]) for process in at_work]

    assert [0, 0] == [process.returncode for process in at_work]
    instances = machine.card(0).instances
    assert sum(kept) == len(instances) > 0
    assert len(instances) == len({instance.start for instance in instances})


def test_a_forked_child_goes_on(library: Path, host: Path, machine: Machine) -> None:
    """Parent and child have the lock of their own, so neither change is lost."""
    assert "0 0\n" == output(host, "fork", env=seeing(library, machine))
    assert 2 == len(machine.card(0).instances)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (None, "nvmlInitWithFlags: $MIG_MANAGER_SIM is not set; set it to the file of a simulated machine"),
        ("absent.sim", "absent.sim: there is no simulated machine; create one: mig-manager sim create"),
        ("damaged.sim", "damaged.sim: this is not the state of a simulated machine; create it anew"),
    ],
)
def test_without_a_machine_there_is_no_driver(
    library: Path, host: Path, tmp_path: Path, file: str | None, said: str
) -> None:
    """Initialising fails with driver not loaded, which programs stop at, and says why on standard error."""
    (tmp_path / "damaged.sim").write_text("{")
    env = seeing(library, tmp_path / file) if file else {"LD_LIBRARY_PATH": str(library.parent)}

    result = run(host, env=env)

    assert (0, "9\n") == (result.returncode, result.stdout)
    assert 1 == len(result.stderr.splitlines())
    assert said in result.stderr
