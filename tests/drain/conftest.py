"""The matrix that the comparison with kubectl counts in."""

from __future__ import annotations

from tests.chaos.counting import matrix

__all__ = ["matrix"]
