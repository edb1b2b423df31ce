"""Processes of the product that go on only when told to, from one request to the next, and can be killed in between.

Each pass runs in a thread of its own, but never does more than one thread run: whoever has the turn goes on to the next
point and hands it back. So the product's code needs no change, and a run can be repeated exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pynvml

from mig_manager.gpu.journal import Journal, Record
from mig_manager.kube.memory import Call

CHANGING = frozenset(
    {
        "nvmlComputeInstanceDestroy",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
        "nvmlGpuInstanceDestroy",
    }
)


class KilledError(BaseException):
    """The process is dead: no handler may catch this, and nothing it tries afterwards reaches the outside."""


class Actor:
    """One process. ``look`` is called after every turn: that is where invariants are checked."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._thread: threading.Thread | None = None
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._dead = self._over = False
        self._error: BaseException | None = None
        self._driver_calls = 0
        self.next_request = ""

    @property
    def busy(self) -> bool:
        """Whether it is in the middle of a pass."""
        return self._thread is not None

    @property
    def was_killed(self) -> bool:
        """Whether its last pass ended by being killed."""
        return isinstance(self._error, KilledError)

    def go(self, work: Callable[[], object], turns: int, until: str = "") -> None:
        """Go on with the pass, or begin one, for so many turns, until right before that request, or to its end.

        What the pass raises comes out here.
        """
        if self._thread is None:
            self._dead = self._over = False
            self._error = None
            self._thread = threading.Thread(target=self._live, args=(work,), daemon=True)
            self._thread.start()
        for _ in range(turns):
            if not self.busy:
                return
            self._pass_turn()
            self._look()
            if until and until == self.next_request:
                return

    def die(self) -> None:
        """End at this moment, as by SIGKILL."""
        if self._thread is not None:
            self._dead = True
            self._pass_turn()

    def die_at_driver_call(self, number: int) -> None:
        """End at the so-and-so-many-th call from now that changes the cards."""
        self._driver_calls = number

    def request(self, call: Call) -> None:
        """Wait for the next turn before a request to the API."""
        self.point(f"{call.verb} {call.kind.name}")

    def point(self, request: str) -> None:
        """Wait for the next turn; called by what the process works with, before every request."""
        if self._dead:
            raise KilledError
        if threading.current_thread() is self._thread:
            self.next_request = request
            self._back.release()
            self._turn.acquire()
            if self._dead:
                raise KilledError

    def driver_call(self) -> None:
        """A call that changes the cards: nobody else gets a turn here, but the process may end."""
        self._driver_calls -= 1
        if self._driver_calls == 0:
            self._dead = True
        if self._dead:
            raise KilledError

    def _live(self, work: Callable[[], object]) -> None:
        self._turn.acquire()
        try:
            if not self._dead:
                work()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever gave the turn
            self._error = error
        self._over = True
        self._back.release()

    def _pass_turn(self) -> None:
        self.next_request = ""
        self._turn.release()
        self._back.acquire()
        if self._over and self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._error is not None and not isinstance(self._error, KilledError):
                raise self._error


class ActorsJournal(Journal):
    """A host file that outlives the processes; a process waits for its turn before it writes."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.record = Record()

    def read(self) -> Record:
        """What is recorded."""
        return self.record

    def _write(self, record: Record) -> None:
        self.actor.point("write journal")
        self.record = record


class ActorsLibrary:
    """The NVML library as a process sees it that may die in any call that changes the cards."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._library = pynvml.nvmlLib

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - functions of a C library
        function = getattr(self._library, name)
        return _Deadly(function, self._actor) if name in CHANGING else function


class _Deadly:
    """A function in which the process may die."""

    def __init__(self, function: Any, actor: Actor) -> None:  # noqa: ANN401 - a function of a C library
        self._function, self._actor = function, actor
        self.restype: object = None

    def __call__(self, *arguments: object) -> object:
        self._actor.driver_call()
        return self._function(*arguments)
