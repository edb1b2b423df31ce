"""Where the files that ship with the program are: schemas (``crds``) and curated profiles (``profiles``).

In a wheel they lie inside the package, in a checkout at its top level.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The directory ``crds`` or ``profiles``; FileNotFoundError when the installation is incomplete."""
    for place in (_PACKAGE / "_data" / folder, _PACKAGE.parent / folder):
        if place.is_dir():
            return place
    raise FileNotFoundError(
        f"finding {folder}: neither in {_PACKAGE / '_data'} nor in {_PACKAGE.parent}; install mig-manager again"
    )
