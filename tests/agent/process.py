"""The life of one agent process: what it asks for is counted, may fail, and may be the last thing it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps

from mig_manager.agent import reconciler
from mig_manager.agent.context import Context
from mig_manager.agent.reconciler import Step
from mig_manager.agent.results import StepResult
from mig_manager.kube.errors import ClusterError, ForbiddenError, UnavailableError
from tests.agent.clock import FakeClock

WEBHOOK_DOWN = "Internal error occurred: failed calling webhook"


class KilledError(BaseException):
    """The process is dead: no handler may catch this, and nothing it tries afterwards reaches the outside."""


@dataclass
class Fault:
    """How one request to the API server fails, counted from 1: refused, or (``lost``) carried out without an answer."""

    at: int
    error: Callable[[str], ClusterError]
    lost: bool = False

    def strikes(self, request: int, *, answered: bool) -> bool:
        """Whether that request fails, before it is carried out or when it is ``answered``."""
        return request == self.at and answered is self.lost


@dataclass
class Outage(Fault):
    """Every request fails from that one on, for ``seconds``; ``asked`` are the times of requests meanwhile."""

    clock: FakeClock | None = None
    seconds: float = 600.0
    end: datetime | None = None
    asked: list[datetime] = field(default_factory=list)

    def strikes(self, request: int, *, answered: bool) -> bool:
        """Whether that request falls into the outage."""
        if answered or request < self.at or self.clock is None:
            return False
        now = self.clock.now()
        self.end = self.end or now + timedelta(seconds=self.seconds)
        if now < self.end:
            self.asked.append(now)
        return now < self.end

    def most(self, seconds: float) -> int:
        """The most requests within so many seconds."""
        width = timedelta(seconds=seconds)
        return max((sum(start <= t < start + width for t in self.asked) for start in self.asked), default=0)


@dataclass
class Process:
    """The life of one agent process: counts the calls of its ports, and dies at one of them; 0 means never.

    ``look`` is called at every point, alive or not yet dead: that is where invariants are checked. ``begins`` is called
    when a step begins, ``step`` by its name.
    """

    requests: int = 0
    fault: Fault | None = None
    die_at: int = 0
    points: int = 0
    names: list[str] = field(default_factory=list)
    look: Callable[[], None] = lambda: None
    begins: Callable[[], None] = lambda: None
    step: str = ""

    def watched(self, step: Step) -> Step:
        """The step, with a look when it begins. To die there would be to die at the call before."""

        @wraps(step)
        def run(ctx: Context) -> StepResult:
            self.step = step.__name__
            self.begins()
            return step(ctx)

        return run

    def point(self, name: str) -> None:
        """A point of time before or after a call; from ``die_at`` on nothing gets past it."""
        self.points += 1
        self.names.append(name)
        self.look()
        if self.die_at and self.points >= self.die_at:
            raise KilledError

    def request(self, doing: str, *, answered: bool) -> None:
        """A request begins, or is ``answered``."""
        self.requests += not answered
        if self.fault is not None and self.fault.strikes(self.requests, answered=answered):
            raise self.fault.error(doing)


@dataclass
class NoDeletions(Process):
    """An agent that may not delete pods in the namespace of the GPU clients; ``verbs`` are those that are refused."""

    verbs: tuple[str, ...] = ("delete", "delete-dry-run")

    def request(self, doing: str, *, answered: bool) -> None:
        """Refuse it."""
        super().request(doing, answered=answered)
        if doing in {f"{verb} Pod" for verb in self.verbs}:
            raise ForbiddenError(doing, "not in this namespace")


@dataclass
class Broken(Process):
    """An agent of which requests of these kinds fail, all others come through: a webhook of the cluster is down."""

    fails: tuple[str, ...] = ()
    error: type[ClusterError] = UnavailableError

    def request(self, doing: str, *, answered: bool) -> None:
        """Fail it before it is carried out."""
        super().request(doing, answered=answered)
        if doing in self.fails:
            raise self.error(doing, WEBHOOK_DOWN)


@contextmanager
def watched_steps(process: Process) -> Iterator[None]:
    """The steps of a pass, with a look when each begins."""
    steps = reconciler.STEPS
    reconciler.STEPS = tuple(process.watched(step) for step in steps)
    try:
        yield
    finally:
        reconciler.STEPS = steps
