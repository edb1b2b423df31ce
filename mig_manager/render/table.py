"""Tables of plain text: columns as wide as they must be, figures to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GAP = "  "


def text_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> list[str]:
    """The lines of a table; ``right`` are the heads of columns that are aligned to the right."""
    texts = [list(head), *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    to_right = {i for i, name in enumerate(head) if name in set(right)}
    return [
        GAP.join(
            text.rjust(widths[i]) if i in to_right else text.ljust(widths[i]) for i, text in enumerate(row)
        ).rstrip()
        for row in texts
    ]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> list[str]:
    """The same as a table in Markdown."""
    to_right = set(right)
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---:' if name in to_right else '---' for name in head)}|"]
    return lines + [f"| {' | '.join(_text(value) for value in row)} |" for row in rows]


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 6`` for 0, 1, 2, 3, 6."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def _text(value: object) -> str:
    """Unknown figures are a dash, never an empty cell."""
    return "-" if value is None or value == "" else str(value)
