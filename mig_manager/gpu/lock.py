"""One program at a time may change the cards of a host: a lock that is held for as long as the process lives.

The kernel gives it back when the process dies, however it dies, so there is no stale lock to clean up.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

DEFAULT_PATH = Path("/var/lib/mig-manager/lock")


class LockedError(Exception):
    """Another process holds the host lock; the message names it."""


class HostLock:
    """The lock file of this host, held from construction until ``release`` or the end of the process."""

    def __init__(self, path: Path = DEFAULT_PATH) -> None:
        """Take the lock at once; LockedError, naming the holder's pid, when somebody else has it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise LockedError(
                f"locking {path}: process {holder} is changing the GPUs of this host; stop it or wait for it"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back before the process ends."""
        os.close(self._file)
