"""Where the state lives: in one file shared by processes, or in memory.

Readers look whether the file changed and parse it only then. Writers take a lock of their thread's process, then
one on a separate file (the state file itself is replaced by renaming, so a lock on it would lock nothing), read
anew, change a private copy, and replace the file. A writer that fails leaves the state as it was.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mig_manager.sim.model.checking import check
from mig_manager.sim.model.state import MachineError, MachineState, damaged_state, decode, encode

_Version = tuple[int, int, int]


class Store:
    """A machine's state. ``path`` ``None`` keeps it in memory; then ``state`` must be given."""

    def __init__(self, path: Path | None, state: MachineState | None = None) -> None:
        self.path = path
        self._writing = threading.RLock()
        self._changing = False
        self._reading = threading.Lock()
        self._state = state
        self._version: _Version | None = None

    def read(self) -> MachineState:
        """The present state, to look at only: whoever wants to change it uses ``change``."""
        if self.path is None:
            assert self._state is not None, "a machine in memory is made with its state"  # noqa: S101 - an invariant
            return self._state
        with self._reading:
            try:
                return self._parsed(self.path)
            except FileNotFoundError:
                raise MachineError(
                    f"{self.path}: there is no simulated machine",
                    f"create one: mig-manager sim create {self.path} --gpu A100-SXM4-80GB",
                ) from None
            except OSError as error:
                raise MachineError(f"reading {self.path}: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise MachineError(f"{self.path}: not a text file", "create the machine anew") from error
            except MachineError as error:
                raise MachineError(f"{self.path}: {error.problem}", error.hint) from error

    @contextmanager
    def change(self) -> Iterator[MachineState]:
        """A private copy of the state that becomes the state when the block ends without an exception."""
        with self._writing:
            if self._changing:
                raise RuntimeError("a change inside a change would wait for itself")
            self._changing = True
            try:
                with self._locked():
                    copy = decode(encode(self.read()))
                    yield copy
                    self._replace(copy)
            finally:
                self._changing = False

    def create(self, state: MachineState, *, overwrite: bool) -> None:
        """Write the first state; MachineError when the file exists and may not be overwritten."""
        with self._writing, self._locked():
            if self.path is not None and self.path.exists() and not overwrite:
                raise MachineError(f"{self.path} exists", "choose another file or say that it may be overwritten")
            self._replace(state)

    def _parsed(self, path: Path) -> MachineState:
        """What is in the file, parsed only if it is not what was parsed last."""
        if self._state is None or _version(path.stat()) != self._version:
            with path.open(encoding="utf-8") as file:
                version = _version(os.fstat(file.fileno()))
                state = decode(file.read())
                try:
                    check(state)
                except ValueError as error:
                    raise damaged_state(error) from error
                self._state, self._version = state, version
        return self._state

    def _replace(self, state: MachineState) -> None:
        if self.path is None:
            self._state = state
            return
        file_itself = _followed(self.path)
        temporary = file_itself.with_name(f"{file_itself.name}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(encode(state))
                file.flush()
                os.fsync(file.fileno())
            # Readers tell versions apart by the time of change. The file system counts that in ticks: repeat none.
            now = max(time.time_ns(), self._last_changed() + 1)
            os.utime(temporary, ns=(now, now))
            temporary.replace(file_itself)
        except OSError as error:
            raise MachineError(f"writing {self.path}: {error.strerror}") from error

    def _last_changed(self) -> int:
        assert self.path is not None, "only files have a time of change"  # noqa: S101 - for the type checker
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self.path is None:
            yield
            return
        file_itself = _followed(self.path)
        lock = file_itself.with_name(f"{file_itself.name}.lock")
        try:
            # Opened for every change: a descriptor that a forked child inherits would share its lock.
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError as error:
            raise MachineError(f"writing {self.path}: there is no directory {lock.parent}", "make it first") from error
        except OSError as error:
            raise MachineError(f"locking {lock}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            # Said, and not left to closing: a child that another thread forks meanwhile has the descriptor, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _followed(path: Path) -> Path:
    """The file that a link leads to: the machine has one lock, whatever it is called, and a link stays one."""
    return Path(os.path.realpath(path))


def _version(stat: os.stat_result) -> _Version:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
