"""Build the library with the user's C compiler, once, and keep it in the cache under a key of all that shapes it.

Neither headers nor libraries of Python are needed for that, and the result serves programs that are a Python of another
version too. What it needs where it runs: Linux with glibc, the libpython of the interpreter that built it, and that
interpreter's environment at its place.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import mig_manager
from mig_manager.sim.cache import cache_directory
from mig_manager.sim.libnvml.functions import functions
from mig_manager.sim.libnvml.source import Interpreter, source

SONAME = "libnvidia-ml.so.1"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", f"-Wl,-soname,{SONAME}"),
    # A program may unload and load it many times; the interpreter must stay where it is.
    "-Wl,-z,nodelete",
)
LIBRARIES = ("-ldl",)
INSTALL_HINT = "install a C compiler (Debian, Ubuntu: apt install gcc libc6-dev), or name one in $CC"


class LibraryError(Exception):
    """The library cannot be had; the message says what failed and what to do."""


def library(environ: Mapping[str, str] = os.environ) -> Path:
    """The library, built if need be (a second); its directory is what belongs into ``$LD_LIBRARY_PATH``.

    LibraryError when there is no C compiler, no libpython, or no Linux.
    """
    text = source(functions(), interpreter())
    key = hashlib.sha256("\0".join((text, *FLAGS, *LIBRARIES, platform.machine())).encode()).hexdigest()[:16]
    target = cache_directory("libnvml", environ) / key / SONAME
    if not target.exists():
        _build(text, target, environ)
    return target


def interpreter() -> Interpreter:
    """The Python that runs this, as the library will start it; LibraryError when that is not possible."""
    if platform.system() != "Linux":
        raise LibraryError(f"building {SONAME}: it runs on Linux only, not on {platform.system()}; use --sim FILE here")
    names = [sysconfig.get_config_var(name) for name in ("INSTSONAME", "LDLIBRARY")]
    directories = [sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix, "lib")]
    places = [Path(directory, name) for directory in directories if directory for name in names if name]
    found = next((place for place in places if ".so" in place.name and place.exists()), None)
    if found is None:
        name = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
        raise LibraryError(
            f"building {SONAME}: {sys.executable} comes without its shared library {name}.so; install that (Debian,"
            f" Ubuntu: apt install {name}), or use a Python that was built with --enable-shared"
        )
    return Interpreter(found, Path(sys.executable), sys.version_info.minor, _search_path())


def _search_path() -> tuple[Path, ...]:
    """Where mig-manager and the one package it needs here are; both run on other versions of Python as they are."""
    import yaml

    return tuple(dict.fromkeys(Path(str(module.__file__)).parents[1] for module in (mig_manager, yaml)))


def _build(text: str, target: Path, environ: Mapping[str, str]) -> None:
    compiler, *options = _compiler(environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    # In a directory of its own and then renamed: two may build it at the same time.
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as scratch:
        code, built = Path(scratch, "libnvidia-ml.c"), Path(scratch, SONAME)
        code.write_text(text, encoding="utf-8")
        command = [compiler, *options, *FLAGS, str(code), "-o", str(built), *LIBRARIES]
        answer = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)  # noqa: S603 - the compiler that the user has or names
        if answer.returncode:
            lines = [line for line in answer.stderr.splitlines() if "error" in line] or answer.stderr.splitlines()
            why = lines[0] if lines else f"it ended with {answer.returncode}"
            raise LibraryError(f"building {SONAME}: {compiler}: {why}; {INSTALL_HINT}")
        built.rename(target)


def _compiler(environ: Mapping[str, str]) -> list[str]:
    """The compiler, with what ``$CC`` says besides its name."""
    named = shlex.split(environ.get("CC", ""))
    for name, *options in [named] if named else [[name] for name in COMPILERS]:
        found = shutil.which(name, path=environ.get("PATH"))
        if found is not None:
            return [found, *options]
    missing = f"$CC is {named[0]}, which is not on PATH" if named else f"no C compiler ({', '.join(COMPILERS)}) on PATH"
    raise LibraryError(f"building {SONAME}: {missing}; {INSTALL_HINT}")
