"""A card as a bar: its memory units from left to right, with what lies on them.

Every grid is drawn equally wide, so that a drawing with its label fits into 80 columns on cards of 4, 8 and 12 units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mig_manager.render.look import Look, Role

LABEL_WIDTH = 7
INNER_WIDTH = 72


@dataclass(frozen=True, slots=True)
class Word:
    """A word inside a cell. Words of a cell are wrapped, never broken."""

    text: str
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Something that occupies ``size`` memory units from ``start``."""

    start: int
    size: int
    words: tuple[Word, ...]


def ruler(units: int) -> str:
    """The numbers of the memory units, each above the place where its unit begins."""
    width = INNER_WIDTH // units
    return (" " * (LABEL_WIDTH + 1) + "".join(str(unit).ljust(width) for unit in range(units))).rstrip()


def room(units: int, size: int) -> int:
    """How many characters fit side by side into a cell of ``size`` of ``units`` memory units."""
    return INNER_WIDTH // units * size - 1


def draw_bar(units: int, cells: Sequence[Cell], label: str, look: Look) -> list[str]:
    """The lines of the bar. ``cells`` must cover all units, in order; ``label`` has at most LABEL_WIDTH - 1 letters."""
    widths = [room(units, cell.size) for cell in cells]
    wrapped = [_wrap(cell.words, w) for cell, w in zip(cells, widths, strict=True)]
    height = max(len(rows) for rows in wrapped)
    margin = " " * LABEL_WIDTH
    drawn = [margin + _border(look.lines.top, look.lines.horizontal, widths)]
    for row in range(height):
        inside = look.lines.vertical.join(
            _row(rows[row] if row < len(rows) else (), w, look) for rows, w in zip(wrapped, widths, strict=True)
        )
        start = label.ljust(LABEL_WIDTH) if row == 0 else margin
        drawn.append(f"{start}{look.lines.vertical}{inside}{look.lines.vertical}")
    drawn.append(margin + _border(look.lines.bottom, look.lines.horizontal, widths))
    return drawn


def _border(ends: str, line: str, widths: Sequence[int]) -> str:
    return ends[0] + ends[1].join(line * width for width in widths) + ends[2]


def _wrap(words: Sequence[Word], width: int) -> list[tuple[Word, ...]]:
    rows: list[list[Word]] = [[]]
    used = 0
    for word in words:
        needed = len(word.text) + (1 if rows[-1] else 0)
        if rows[-1] and used + needed > width:
            rows.append([])
            used, needed = 0, len(word.text)
        rows[-1].append(word)
        used += needed
    return [tuple(row) for row in rows]


def _row(words: Sequence[Word], width: int, look: Look) -> str:
    length = sum(len(w.text) for w in words) + max(0, len(words) - 1)
    return " ".join(look.paint(w.text, w.role) for w in words) + " " * (width - length)
