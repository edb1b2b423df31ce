"""Fixtures for the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import create, succeed


@pytest.fixture
def box(tmp_path: Path) -> str:
    """A simulated machine with one A100, MIG on, cut as all-balanced: 2g@0, 1g@2, 1g@3, 3g@4."""
    path = create(tmp_path, "A100-SXM4-80GB")
    succeed("apply", "--sim", path, "--profile", "all-balanced")
    return path
