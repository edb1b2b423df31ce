"""Shipped files are found in an installation and in a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager import resources


def test_in_a_checkout() -> None:
    """The schemas lie at the top of the checkout."""
    assert ["migconfig.yaml", "mignode.yaml"] == sorted(p.name for p in resources.shipped("crds").glob("*.yaml"))


def test_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files inside the package go before what happens to lie beside it."""
    package = tmp_path / "mig_manager"
    (package / "_data" / "crds").mkdir(parents=True)
    (tmp_path / "crds").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert package / "_data" / "crds" == resources.shipped("crds")


def test_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation is told as such."""
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "mig_manager")
    with pytest.raises(FileNotFoundError, match="finding profiles: neither in"):
        resources.shipped("profiles")
