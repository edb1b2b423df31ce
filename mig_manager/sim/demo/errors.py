"""What can go wrong in the demo."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on, or something that it shows turned out not to be true: one line."""
