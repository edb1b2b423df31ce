"""Cards of which the same is to be said are printed once: "GPU 0-7  8 × A100-SXM4-80GB"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mig_manager.geometry.state import Card
from mig_manager.render.look import Look, Role
from mig_manager.render.table import ranges

NO_GPU = "This machine has no NVIDIA GPU."
"""What is said where there is no card to describe."""


def folded(described: Iterable[tuple[Card, Sequence[str]]], look: Look) -> list[str]:
    """A heading and the lines of each card, once for all cards of one model with the same lines; a blank line each."""
    blocks: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for card, lines in described:
        blocks.setdefault((card.model, tuple(lines)), []).append(card.index)
    found: list[str] = []
    for (model, lines), indices in blocks.items():
        found += [look.paint(_heading(model, indices), Role.STRONG), *lines, ""]
    return found


def _heading(model: str, indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"GPU {indices[0]}  {model}"
    return f"GPU {ranges(indices)}  {len(indices)} × {model}"
