"""Programs of others: how they are built, and how they are let at a machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from mig_manager.sim.cache import cache_directory
from mig_manager.sim.libnvml import build
from mig_manager.sim.libnvml.entry import VARIABLE
from mig_manager.sim.model.machine import Machine

HERE = Path(__file__).parent
MODULE = HERE.parents[1] / "hack" / "conformance"
GO_MINIMUM = (1, 26)
_GO_FLAGS = ("-trimpath", "-buildvcs=false")


def seeing(library: Path, machine: Machine | Path) -> dict[str, str]:
    """The two variables that a program needs, and no others."""
    file = machine.store.path if isinstance(machine, Machine) else machine
    return {"LD_LIBRARY_PATH": str(library.parent), VARIABLE: str(file)}


def run(*command: str | Path, env: Mapping[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program with just that environment."""
    words = list(map(str, command))
    return subprocess.run(words, env=dict(env), input=stdin, capture_output=True, text=True, check=False)


def output(*command: str | Path, env: Mapping[str, str], stdin: str = "") -> str:
    """What a program prints that must succeed and say nothing else."""
    result = run(*command, env=env, stdin=stdin)
    assert (0, "") == (result.returncode, result.stderr)
    return result.stdout


def compiler() -> str:
    """The C compiler that is there."""
    return next(found for found in map(shutil.which, build.COMPILERS) if found)


def compiled(source: str, directory: Path) -> Path:
    """A C program of this directory."""
    program = directory / Path(source).stem
    subprocess.run([compiler(), "-Wall", "-Werror", "-o", program, HERE / source, "-ldl", "-pthread"], check=True)
    return program


def built_with_go() -> Path:
    """The program in hack/conformance, kept in the cache by a key of its sources; the first time takes a minute."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go: there is none on PATH; install it from https://go.dev/dl")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        pytest.skip(f"needs Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer, not {version.strip()}")
    sources = sorted(MODULE.iterdir())
    key = hashlib.sha256(b"\0".join([version.encode(), *(path.read_bytes() for path in sources)])).hexdigest()[:16]
    program = cache_directory("conformance") / key
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            # -w: go-nvml binds functions that are deprecated, and says so for each of them.
            env = {**os.environ, "CGO_ENABLED": "1", "CGO_CFLAGS": "-O1 -w", "CC": compiler(), "GOTOOLCHAIN": "local"}
            env["GOWORK"] = "off"
            scratch = program.with_suffix(".new")
            subprocess.run([go, "build", *_GO_FLAGS, "-o", scratch, "."], cwd=MODULE, env=env, check=True)
            scratch.rename(program)
    return program
