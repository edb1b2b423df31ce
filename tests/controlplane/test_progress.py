"""Progress of a long build on something that is not a terminal."""

from __future__ import annotations

import io

from mig_manager.sim.controlplane.progress import shown


def test_lines_come_for_a_new_text_and_then_now_and_again() -> None:
    """A log gets a line when the text changes and every 20 s while only the count does."""
    out = io.StringIO()
    times = iter([0.0, 0.0, 5.0, 21.0, 22.0])
    with shown(out, lambda: next(times)) as report:
        report("compiling", 1, 9)
        report("compiling", 2, 9)
        report("compiling", 7, 9)
        report("linking", 0, 0)
    assert ["compiling (1 of 9), 0 s", "compiling (7 of 9), 21 s", "linking, 22 s"] == out.getvalue().splitlines()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_terminal_shows_text_and_count() -> None:
    """On a terminal the live line holds the text and the count."""
    out = Terminal()
    with shown(out) as report:
        report("compiling", 3, 9)
    assert "compiling" in out.getvalue()
    assert "3/9" in out.getvalue()
