"""The files that ship with the program: schemas (``crds``), curated profiles (``profiles``), and how they are read.

In a wheel they lie inside the package, in a checkout at its top level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The directory ``crds`` or ``profiles``; FileNotFoundError when the installation is incomplete."""
    for place in (_PACKAGE / "_data" / folder, _PACKAGE.parent / folder):
        if place.is_dir():
            return place
    raise FileNotFoundError(
        f"finding {folder}: neither in {_PACKAGE / '_data'} nor in {_PACKAGE.parent}; install mig-manager again"
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """The one mapping in a YAML file of ours; files of users are read by ``api.yaml_reader``, which trusts nothing."""
    import yaml

    # libyaml is ten times faster and not everywhere.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both are safe
    return loaded
