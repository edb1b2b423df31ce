"""How text looks on the place where it is printed: line-drawing characters or ASCII, colours or none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a piece of text says; the values are ANSI SGR codes."""

    GOOD = "32"
    BAD = "31"
    WARN = "33"
    DIM = "2"
    STRONG = "1"


@dataclass(frozen=True, slots=True)
class Lines:
    """The characters of a drawing. ``top`` and ``bottom`` are left end, joint and right end."""

    horizontal: str
    vertical: str
    top: str
    bottom: str
    times: str
    arrow: str


UNICODE = Lines("─", "│", "┌┬┐", "└┴┘", "×", "→")
ASCII = Lines("-", "|", "+++", "+++", "x", "->")


@dataclass(frozen=True, slots=True)
class Look:
    """Characters and colours of one output."""

    lines: Lines = UNICODE
    color: bool = False

    def paint(self, text: str, role: Role | None) -> str:
        """The text in the colour of its role, where there are colours."""
        return f"\x1b[{role}m{text}\x1b[0m" if self.color and role and text.strip() else text

    def plain(self, text: str) -> str:
        """The text in characters that the output can show."""
        if self.lines is UNICODE:
            return text
        return text.replace(UNICODE.times, ASCII.times).replace(UNICODE.arrow, ASCII.arrow)
