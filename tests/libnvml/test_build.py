"""Building the library: what it needs, what it says when something is missing, and when it builds anew."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from mig_manager.sim.libnvml import build
from tests.cli.commands import create, run


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with an empty cache and no compiler."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "bin")}


def program(directory: Path, name: str, script: str) -> Path:
    """A shell script on the PATH of ``environ``."""
    path = directory / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_it_is_built_once(library: Path, tmp_path: Path) -> None:
    """The second call compiles nothing; another compiler's existence does not matter then."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = build.library(environ)

    assert library.parent.name == first.parent.name
    assert first == build.library({"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""})
    assert [build.SONAME] == [path.name for path in first.parent.iterdir()]


def test_no_compiler(environ: dict[str, str]) -> None:
    """Without a compiler one line says which were looked for and what to install."""
    with pytest.raises(build.LibraryError) as raised:
        build.library(environ)

    expected = (
        "building libnvidia-ml.so.1: no C compiler (cc, gcc, clang) on PATH;"
        " install a C compiler (Debian, Ubuntu: apt install gcc libc6-dev), or name one in $CC"
    )
    assert expected == str(raised.value)


def test_a_named_compiler_that_is_missing(environ: dict[str, str]) -> None:
    """$CC is believed, not replaced."""
    with pytest.raises(build.LibraryError, match=r"\$CC is mycc, which is not on PATH; install"):
        build.library({**environ, "CC": "mycc -m64"})


def test_the_named_compiler_is_used_with_its_options(environ: dict[str, str], tmp_path: Path) -> None:
    """$CC may hold more than a name, as with ccache."""
    program(tmp_path, "mycc", f'echo "$@" > {tmp_path}/called; while [ "$1" != -o ]; do shift; done; echo built > "$2"')

    built = build.library({**environ, "CC": "mycc -m64 --sysroot='/a b'"})

    assert "built\n" == built.read_text()
    assert (tmp_path / "called").read_text().startswith("-m64 --sysroot=/a b -O2 -shared")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo note >&2; echo 'x.c:1: error: stdio.h: no such file' >&2; exit 1",
            "x.c:1: error: stdio.h: no such file",
        ),
        ("echo strange >&2; exit 1", "strange"),
        ("exit 3", "it ended with 3"),
    ],
)
def test_a_compiler_that_fails(environ: dict[str, str], tmp_path: Path, script: str, said: str) -> None:
    """Its first error is passed on in one line, and nothing half-built stays."""
    path = program(tmp_path, "gcc", script)

    with pytest.raises(build.LibraryError) as raised:
        build.library(environ)

    assert str(raised.value).startswith(f"building libnvidia-ml.so.1: {path}: {said}; install a C compiler")
    assert [] == [path for path in (tmp_path / "cache").rglob("*") if not path.is_dir()]


def test_other_systems(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux the file itself still serves."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(build.LibraryError, match="it runs on Linux only, not on Darwin; use --sim FILE here"):
        build.library(environ)


@pytest.mark.parametrize("name", ["libpython3.static.a", "libpython3.absent.so"])
def test_a_python_without_its_library(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A Python that cannot be started from a library is named, with the package that helps."""
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: name)
    with pytest.raises(build.LibraryError) as raised:
        build.library(environ)

    version = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
    assert f"{sys.executable} comes without its shared library {version}.so; install that" in str(raised.value)
    assert f"apt install {version}), or use a Python that was built with --enable-shared" in str(raised.value)


def test_another_place_is_another_library(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library names its interpreter, so another environment gets one of its own."""
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/pythön")
    other = build.library({**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert library.parent.name != other.parent.name


def test_the_verb_prints_what_to_set(library: Path, tmp_path: Path) -> None:
    """Both variables, quoted for a shell, with what is in LD_LIBRARY_PATH already kept behind."""
    directory = tmp_path / "a b"
    directory.mkdir()
    box = create(directory, "A30")

    plain = run("sim", "library", box, env={"LD_LIBRARY_PATH": ""})
    again = run("sim", "library", box, env={"LD_LIBRARY_PATH": f"/opt/x:{library.parent}"})

    assert (0, f"export LD_LIBRARY_PATH={library.parent}\nexport MIG_MANAGER_SIM='{box}'\n") == (
        plain.exit_code,
        plain.stdout,
    )
    assert f"export LD_LIBRARY_PATH={library.parent}:/opt/x\n" == again.stdout.splitlines(keepends=True)[0]


def test_the_verb_says_in_one_line_what_is_missing(environ: dict[str, str], tmp_path: Path) -> None:
    """No machine is bad input; no compiler is a failure."""
    missing = run("sim", "library", str(tmp_path / "absent.sim"))
    failed = run("sim", "library", create(tmp_path, "A30"), env={**environ, "CC": ""})

    assert (2, 1) == (missing.exit_code, failed.exit_code)
    assert "there is no simulated machine" in missing.stderr
    assert failed.stderr.startswith("error: building libnvidia-ml.so.1: no C compiler")
