"""The agent's worlds."""

from __future__ import annotations

from tests.agent.conftest import no_disk, world

__all__ = ["no_disk", "world"]
