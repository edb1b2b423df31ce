"""Where things that were built once are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(what: str, environ: Mapping[str, str] = os.environ) -> Path:
    """``mig-manager/<what>`` in the user's XDG cache directory; it need not exist."""
    named = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification asks to ignore relative paths.
    root = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return root / "mig-manager" / what
