"""How texts are fitted into what a schema, an Event or a line has room for."""

from __future__ import annotations

MESSAGE_LIMIT = 1024
"""So many characters the message of an Event may have (validation of core/v1), and in our schemas any message."""


def shortened(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text in at most ``limit`` characters; where something was left out it ends with ``…``."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
