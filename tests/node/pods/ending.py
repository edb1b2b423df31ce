"""The end of a program in a container: its first process gets no signal for which it has no handler."""

from __future__ import annotations

import signal
import threading
from types import FrameType

asked = threading.Event()
"""Set when the kubelet asks the program to end."""


def listen() -> None:
    """Notice SIGTERM from now on."""

    def end(_: int, __: FrameType | None) -> None:
        asked.set()

    signal.signal(signal.SIGTERM, end)
