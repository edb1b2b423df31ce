"""Unmodified nvidia-ml-py, which loads the library by its name, and our own program on top of it."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
import yaml

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed
from tests.libnvml import tour
from tests.libnvml.programs import output, run, seeing

SITE = str(Path(pynvml.__file__).parent)
ROOT = Path(__file__).parents[2]
OTHERS = [f"3.{minor}" for minor in (11, 12, 13) if minor != sys.version_info.minor]


@pytest.fixture
def busy(machine: Machine) -> Machine:
    """A machine with slices, whole and divided, and processes on them."""
    machine.add_instance(0, "3g.40gb", start=4)
    machine.add_instance(0, "2g.20gb", start=0, compute_widths=[1, 1])
    machine.add_instance(2, "1g.6gb", start=3)
    machine.hold(0, start=4, pid=9)
    machine.hold(3, pid=10, kind="graphics")
    return machine


def test_nvidia_ml_py_sees_the_same_as_in_process(library: Path, busy: Machine) -> None:
    """Every function that reads, with every version of its structures, through the library and without it."""
    with installed(busy):
        expected = tour.everything()

    seen = json.loads(output(sys.executable, "-m", "tests.libnvml.tour", env=environment(library, busy)))

    assert json.loads(json.dumps(expected)) == seen


def test_our_own_program_sees_the_same(library: Path, busy: Machine) -> None:
    """``mig-manager export`` on what it takes for hardware, and on the file."""
    command = [sys.executable, "-m", "mig_manager", "export"]
    env = environment(library, busy)

    on_hardware = yaml.safe_load(output(*command, env=env))
    simulated = yaml.safe_load(output(*command, "--sim", str(busy.store.path), env=env))

    for document in (on_hardware, simulated):
        for gpu in document["gpus"]:
            for holder in gpu["holders"]:
                del holder["name"]  # of processes that exist in the file alone
    assert simulated == on_hardware


def test_our_own_program_changes_it(library: Path, machine: Machine, tmp_path: Path) -> None:
    """``mig-manager apply`` cuts the cards through the library."""
    command = [sys.executable, "-m", "mig_manager", "apply", "--profile", "all-2g", "--state-dir", str(tmp_path)]
    result = run(*command, env=environment(library, machine))

    assert 0 == result.returncode, result.stderr
    assert [[0, 2, 4], [0, 2, 4], [0, 2]] == [[i.start for i in card.instances] for card in machine.read().cards[:3]]


@pytest.mark.parametrize("version", OTHERS)
def test_pythons_of_other_versions(library: Path, busy: Machine, version: str) -> None:
    """The interpreter of the program runs the simulation, although the library was built with another one."""
    other = other_python(version)
    env = {**environment(library, busy), "PYTHONPATH": f"{ROOT}:{SITE}"}
    mine = output(sys.executable, "-m", "tests.libnvml.tour", env=env)
    assert mine == output(other, "-m", "tests.libnvml.tour", env=env)


def test_a_python_that_is_too_old(library: Path, machine: Machine) -> None:
    """The simulation cannot run in it: driver not loaded, and a line that says why."""
    code = "import ctypes; print(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
    result = run(other_python("3.10"), "-c", code, env=environment(library, machine))
    assert (0, "9\n") == (result.returncode, result.stdout)
    assert result.stderr.startswith("simulated libnvidia-ml.so.1: the Python that this program is, is too old: 3.10")


def test_a_program_may_have_nothing_of_ours(library: Path, busy: Machine) -> None:
    """The library brings its search path along: here nothing but the standard library can be imported."""
    code = "import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); print(n.nvmlInit_v2(), n.nvmlShutdown())"
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"

    assert "0 0\n" == output(bare, "-I", "-S", "-c", code, env=seeing(library, busy))


def environment(library: Path, machine: Machine) -> dict[str, str]:
    """What a Python program needs that imports from this directory."""
    return {**seeing(library, machine), "PYTHONDONTWRITEBYTECODE": "1"}


def other_python(version: str) -> Path:
    """Another Python that works, on PATH or beside this one; the test is skipped without."""
    beside = Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python{version}")
    on_path = filter(None, [shutil.which(f"python{version}")])
    for found in itertools.chain(beside, map(Path, on_path)):
        if not subprocess.run([found, "-c", "import ctypes"], capture_output=True, check=False).returncode:
            return found
    pytest.skip(f"there is no Python {version} here that works")
