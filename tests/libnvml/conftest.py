"""The library and the programs that use it, built once; without a compiler or Go, their tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager.sim.libnvml import build
from mig_manager.sim.model.machine import Machine
from tests.libnvml import programs

GPUS = ["A100-SXM4-80GB*2", "A30", "T4"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a compiler."""
    for item in items:
        if "library" in getattr(item, "fixturenames", ()):
            item.add_marker("library")


@pytest.fixture(scope="session")
def library() -> Path:
    """The library for the Python that runs the tests."""
    try:
        return build.library()
    except build.LibraryError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def host(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in C that loads the library by its name; skipped where that cannot be built."""
    assert library.exists()
    return programs.compiled("host.c", tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="session")
def conformance(library: Path) -> Path:
    """The program in Go on NVIDIA's modules; it needs the C compiler too."""
    assert library.exists()
    return programs.built_with_go()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine in a file, MIG on where it exists."""
    return Machine.create(tmp_path / "box.sim", GPUS, mig=True)
