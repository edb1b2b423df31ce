"""How tests run the demo as a person does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LIMIT_S = 300.0
COMMAND = (sys.executable, "-m", "mig_manager", "demo")


def environment(scratch: Path) -> dict[str, str]:
    """An environment in which the demo has its files in that directory."""
    return {**os.environ, "TMPDIR": str(scratch)}
