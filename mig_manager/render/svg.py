"""A card as a picture: a bar of memory units as SVG, readable on light and on dark ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 720
_HEIGHT = 72
_BAR_TOP = 8
_BAR_HEIGHT = 40
_GAP = 3

# Colours of slices by their number of compute slices; dark text is readable on all of them in either scheme.
_FILLS = {1: "#9ad0f5", 2: "#a5e1ad", 3: "#ffe08a", 4: "#f9c09a", 7: "#d5b8f0"}
_WHOLE = "#cfd8dc"

_STYLE = (
    "text{font:600 14px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24;text-anchor:middle}"
    ".s{stroke:#57606a}.f{fill:none;stroke:#8c959f;stroke-dasharray:4 3}"
    ".d{fill:#6e7781;font-weight:400;font-size:12px}"
    "@media(prefers-color-scheme:dark){.s{stroke:#d0d7de}.d{fill:#9198a1}}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """A slice, or free units, of the bar. ``slices`` counts its compute slices: 0 is free, ``None`` a whole GPU."""

    start: int
    size: int
    label: str
    slices: int | None = 0


def card_svg(units: int, boxes: Sequence[Box], title: str) -> str:
    """The picture. ``title`` is what it shows, for those who cannot see it."""
    unit = _WIDTH / units
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for box in boxes:
        x, width = box.start * unit, box.size * unit
        if box.slices == 0:
            look = 'class="f"'
        else:
            look = f'class="s" fill="{_FILLS.get(box.slices, _WHOLE) if box.slices else _WHOLE}"'
        parts.append(
            f'<rect {look} x="{x + _GAP / 2:g}" y="{_BAR_TOP}" width="{width - _GAP:g}" height="{_BAR_HEIGHT}" rx="5"/>'
        )
        faint = ' class="d"' if box.slices == 0 else ""
        parts.append(f'<text{faint} x="{x + width / 2:g}" y="{_BAR_TOP + 25}">{escape(box.label)}</text>')
    parts += [
        f'<text class="d" x="{(number + 0.5) * unit:g}" y="{_HEIGHT - 8}">{number}</text>' for number in range(units)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"
