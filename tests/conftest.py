"""What tests of several concepts share: one control plane per run, started when the first test asks for it.

A test that uses it gets the mark ``cluster``, so that ``-m "not cluster"`` needs no control plane.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.progress import shown
from mig_manager.sim.controlplane.runner import ControlPlane

CRDS = sorted((Path(__file__).parent.parent / "crds").glob("*.yaml"))

# Time limits per example say more about the machine than about the code. "quick" is for runs that repeat the whole
# suite many times, "thorough" for a search after a change: pytest --hypothesis-profile=thorough
settings.register_profile("standard", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True, database=None)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile("standard")

# A shell starts background jobs with SIGINT ignored, and whatever a test starts would inherit that: Ctrl-C sent to it
# would do nothing, and the test would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the control plane."""
    for item in items:
        if {"control_plane", "programs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Programs:
    """The programs of the control plane, built on first use with progress shown past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), shown() as report:
        return find(report)


@pytest.fixture(scope="session")
def control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A running control plane with the CRDs, one for the whole run; tests choose object names of their own."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield _shared(programs, tmp_path_factory.getbasetemp().parent)
        return
    with ControlPlane(programs, CRDS) as plane:
        yield plane.access


def _shared(programs: Programs, directory: Path) -> Access:
    """The control plane that all xdist workers use: the first to come starts it, the process above them all ends it."""
    note = directory / "control-plane"
    with (directory / "control-plane.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if note.exists():
            return Access.load(Path(note.read_text()))
        plane = ControlPlane(programs, CRDS, parent_pid=os.getppid())
        plane.start()
        access = plane.detach()
        note.write_text(str(access.directory))
        return access
