"""Where the demos of these tests put their files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.programs import Programs


@pytest.fixture
def scratch(programs: Programs) -> Iterator[Path]:
    """A directory for temporary files, with a short name because sockets are made in it. The programs are built."""
    del programs
    directory = Path(tempfile.mkdtemp(prefix="d-"))
    yield directory
    shutil.rmtree(directory)
