"""Finding the NVML library."""

from __future__ import annotations

import _ctypes
import ctypes
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest

from mig_manager.gpu.library import SONAME, Library
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.gpu.port import DriverNotReadyError


@dataclass(frozen=True, eq=False)
class Opened:
    """A library that is open."""

    _handle: int


class Loader:
    """Loads what exists as a file, as ctypes would, without running anything of it."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.closed: list[int] = []
        self.by_name = False

    def __call__(self, path: str) -> object:
        """Load; OSError for what is no library."""
        if path == SONAME and not self.by_name:
            raise OSError(f"{path}: cannot open shared object file")
        if path != SONAME and Path(path).read_text() != "library":
            raise OSError(f"{path}: invalid ELF header")
        self.loaded.append(path)
        return Opened(len(self.loaded))


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loader]:
    """Nothing is loaded yet, and nothing real will be."""
    loader = Loader()
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(ctypes, "CDLL", loader)
    monkeypatch.setattr(_ctypes, "dlclose", loader.closed.append)
    yield loader
    pynvml._nvmlGetFunctionPointer_cache.clear()


def put(root: Path, directory: str, content: str = "library") -> Path:
    """A library file below a root."""
    path = root / directory / SONAME
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


def test_loader_path_comes_first(loader: Loader, tmp_path: Path) -> None:
    """Where the loader finds the library nothing else is looked at."""
    put(tmp_path, "usr/lib64")
    loader.by_name = True
    Library(environment={}, roots=(str(tmp_path),)).load()
    assert [SONAME] == loader.loaded
    assert pynvml.nvmlLib is not None


@pytest.mark.parametrize("directory", ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64"])
def test_roots(loader: Loader, tmp_path: Path, directory: str) -> None:
    """Driver container roots and mounts of the host are searched, whatever the distribution calls the directory."""
    path = put(tmp_path, directory)
    Library(environment={}, roots=("/nowhere", str(tmp_path))).load()
    assert [str(path)] == loader.loaded


@pytest.mark.parametrize("variable", ["NVIDIA_DRIVER_ROOT", "DRIVER_ROOT_CTR_PATH"])
def test_root_from_the_environment(loader: Loader, tmp_path: Path, variable: str) -> None:
    """The variables that the GPU operator sets name the first root."""
    path, _ = put(tmp_path / "named", "usr/lib64"), put(tmp_path / "known", "usr/lib64")
    Library(environment={variable: str(tmp_path / "named")}, roots=(str(tmp_path / "known"),)).load()
    assert [str(path)] == loader.loaded


def test_configured_path_is_the_only_one(loader: Loader, tmp_path: Path) -> None:
    """A configured path is used, and if nothing is there nothing else is guessed."""
    loader.by_name = True
    path = put(tmp_path, "opt")
    Library(path).load()
    assert [str(path)] == loader.loaded
    pynvml.nvmlLib = None
    with pytest.raises(DriverNotReadyError, match=f"not found; looked at {tmp_path}/missing.so; install"):
        Library(tmp_path / "missing.so").load()


def test_missing_library_and_late_arrival(loader: Loader, tmp_path: Path) -> None:
    """The error lists what was looked at, and a library that arrives later is found by the same process."""
    put(tmp_path, "lib64", "rubbish")
    gpus = NvmlGpus(Library(environment={}, roots=(str(tmp_path),)))
    with pytest.raises(DriverNotReadyError) as caught, gpus.session():
        pass
    assert str(caught.value).startswith(f"loading {SONAME}: not found; looked at {SONAME}, {tmp_path}/usr/lib64/")
    assert f"{tmp_path}/lib64/{SONAME} ({tmp_path}/lib64/{SONAME}: invalid ELF header)" in str(caught.value)
    assert pynvml.NVML_ERROR_LIBRARY_NOT_FOUND == caught.value.code
    path = put(tmp_path, "usr/lib64")
    with pytest.raises(DriverNotReadyError, match="initialising NVML"), gpus.session():
        pass  # the file is no real library, so that is as far as it gets
    assert [str(path)] == loader.loaded


def test_found_path_is_logged_once(loader: Loader, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the library is found is worth one line, not one per session."""
    caplog.set_level(logging.INFO)
    path = put(tmp_path, "usr/lib64")
    library = Library(path)
    for _ in range(3):
        library.load()
        library.forget()
    assert [f"using NVML library {path}"] == [r.message for r in caplog.records]
    assert 3 == len(loader.loaded)
    assert [1, 2, 3] == loader.closed


def test_foreign_library_is_left_alone(loader: Loader) -> None:
    """What somebody else put into pynvml is neither replaced nor forgotten."""
    theirs = object()
    pynvml.nvmlLib = theirs
    library = Library()
    library.load()
    library.forget()
    assert theirs is pynvml.nvmlLib
    assert [] == loader.loaded
    assert [] == loader.closed


def test_library_that_somebody_replaced_is_closed_and_theirs_left_alone(loader: Loader, tmp_path: Path) -> None:
    """Ours is closed when it is forgotten, whatever stands in pynvml by then."""
    library = Library(put(tmp_path, "usr/lib64"))
    library.load()
    theirs = object()
    pynvml.nvmlLib = theirs
    library.forget()
    assert theirs is pynvml.nvmlLib
    assert [1] == loader.closed


def test_unusable_library_is_looked_for_again(loader: Loader, tmp_path: Path) -> None:
    """After NVML could not be initialised the next session loads afresh: the driver may have been replaced."""
    path = put(tmp_path, "usr/lib64")
    gpus = NvmlGpus(Library(path))
    for _ in range(2):
        with pytest.raises(DriverNotReadyError, match="initialising NVML: Function Not Found"), gpus.session():
            pass
        assert pynvml.nvmlLib is None
    assert 2 * [str(path)] == loader.loaded
    assert [1, 2] == loader.closed  # else the loader would hand out the former driver's again


def test_only_what_works_with_nvml_loads_pynvml() -> None:
    """The port, the journal and applying itself are there without NVML's binding."""
    code = "import sys, mig_manager.gpu.apply, mig_manager.gpu.reset; sys.exit('pynvml' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
