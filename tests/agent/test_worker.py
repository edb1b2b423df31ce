"""The thread that runs the passes, and what kopf does for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kopf
import pytest

from mig_manager.agent.agent import Agent
from mig_manager.agent.context import Memory
from mig_manager.agent.drift import have_gone, look_idle, look_moving
from mig_manager.agent.handlers import Bell, configure, registry_for
from mig_manager.agent.mailbox import Mailbox, News
from mig_manager.agent.reconciler import Ending
from mig_manager.agent.results import Done, StepResult, Wait
from mig_manager.agent.worker import STUCK_S, Worker
from mig_manager.gpu.lock import HostLock, LockedError
from mig_manager.kube.backoff import EndlessBackoffs
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.stories import Make
from tests.agent.worlds import A100


class Passes:
    """An agent whose passes are counted and end as told; after the last one the worker is closed."""

    def __init__(self, real: Agent, mailbox: Mailbox, *results: StepResult | Exception) -> None:
        self.ports, self.settings, self.seen = real.ports, real.settings, real.seen
        self.memory = Memory()
        self.read: News | None = None
        self.mailbox, self.results = mailbox, list(results)
        self.count = 0

    def run_pass(self) -> Ending:
        """The next ending."""
        self.count += 1
        result = self.results.pop(0)
        if not self.results:
            self.mailbox.close()
        if isinstance(result, Exception):
            raise result
        return Ending("step", result)


class Monotonic:
    """Time that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        """The present."""
        self.time += 1
        return self.time


def news(generation: int = 1, *, uid: str = "u", ending: bool = False) -> News:
    """Of the MIGNode of these tests."""
    return News(uid, generation, ending)


def lock_in(directory: Path) -> Callable[[], HostLock]:
    return lambda: HostLock(directory / "lock")


def run(world: Make, tmp_path: Path, *results: StepResult | Exception) -> Passes:
    w = world(A100)
    mailbox = Mailbox()
    with w.agent(look_s=0.0) as agent:
        passes = Passes(agent, mailbox, *results)
        passes.seen = look_idle(agent.ports)
        worker = Worker(passes, mailbox, lock_in(tmp_path), Monotonic())  # type: ignore[arg-type]
        worker.run()
    return passes


def test_passes_follow_each_other(world: Make, tmp_path: Path) -> None:
    """A pass follows when the time is over; the lock is free afterwards."""
    assert 3 == run(world, tmp_path, Wait("A", 1.0), Done(), Done()).count
    HostLock(tmp_path / "lock").release()


def test_defect_in_a_pass_does_not_end_the_agent(world: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a pass raises is logged, and the next one comes."""
    assert 2 == run(world, tmp_path, ZeroDivisionError("oops"), Done()).count
    assert "oops" in caplog.text


def test_log_is_quiet_when_nothing_changes(world: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line per change of what is going on, and none for conflicts."""
    caplog.set_level(logging.INFO, "mig_manager.agent.worker")
    run(world, tmp_path, Wait("A", 1.0, "x"), Wait("A", 1.0, "y"), Wait("Conflict", 0.0), Done())
    assert ["A at step step: x", "Ready at step step: "] == caplog.messages


def test_second_agent_waits_for_the_lock(world: Make, tmp_path: Path) -> None:
    """Two agents on one host never work at the same time."""
    w = world(A100)
    mailbox = Mailbox()
    asked = threading.Event()
    first = HostLock(tmp_path / "lock")
    tries = []

    def take() -> HostLock:
        tries.append(1)
        if len(tries) == 2:
            first.release()
            asked.set()
        try:
            return HostLock(tmp_path / "lock")
        except LockedError:
            mailbox.deliver(news())
            raise

    with w.agent() as agent:
        passes = Passes(agent, mailbox, Done())
        worker = Worker(passes, mailbox, take, Monotonic())  # type: ignore[arg-type]
        worker.run()
    assert asked.is_set()
    assert (2, 1) == (len(tries), passes.count)


def test_stopped_while_waiting_for_the_lock(world: Make, tmp_path: Path) -> None:
    """An agent that never got the lock ends without a pass."""
    w = world(A100)
    mailbox = Mailbox()
    mailbox.close()
    with w.agent() as agent:
        passes = Passes(agent, mailbox, Done())
        Worker(passes, mailbox, lock_in(tmp_path), Monotonic()).run()  # type: ignore[arg-type]
    assert 0 == passes.count


def test_probe(world: Make, tmp_path: Path) -> None:
    """A thread that lives and moves is healthy; one that has ended, or hangs, is not."""
    w = world(A100)
    mailbox = Mailbox()
    now = [0.0]
    with w.agent() as agent:
        hanging = threading.Event()
        passes = Passes(agent, mailbox, Done())
        passes.run_pass = lambda: (hanging.wait(30), Ending("s", Done()))[1]  # type: ignore[method-assign]
        worker = Worker(passes, mailbox, lock_in(tmp_path), lambda: now[0])  # type: ignore[arg-type]
        healthy = [worker.healthy]
        worker.start()
        healthy.append(worker.healthy)
        now[0] = STUCK_S + 1
        healthy.append(worker.healthy)
        assert STUCK_S < worker.silent_s
        hanging.set()
        worker.stop()
    assert [False, True, False, False] == [*healthy, worker.healthy]


@pytest.mark.parametrize(("generation", "at_once"), [(1, False), (2, True)])
def test_what_the_last_pass_has_read_is_no_news(world: Make, tmp_path: Path, generation: int, at_once: bool) -> None:
    """The informer's first event says what the first pass has read, and brings no second one; another spec does."""
    mailbox, clock = Mailbox(), Monotonic()
    with world(A100).agent(look_s=0.0) as agent:
        passes = Passes(agent, mailbox, Done(), Done())
        passes.read, passes.seen = news(), look_idle(agent.ports)
        mailbox.deliver(news(generation))
        Worker(passes, mailbox, lock_in(tmp_path), clock).run()  # type: ignore[arg-type]
    assert 2 == passes.count
    assert at_once is (clock.time < agent.settings.resync_s / 2)


# -- looking at this machine --


def test_idle_look_sees_slices_and_offers(world: Make) -> None:
    """Slices changed by hand, a driver that goes, a plugin that dies are news; pods that come and go are not."""
    w = world(A100, cut=(("1g", 0), ("2g", 2)))
    with w.agent() as agent:
        before = look_idle(agent.ports)
        w.pod("a")
        assert before == look_idle(agent.ports)
        assert before != look_moving(agent.ports)
        moving = look_moving(agent.ports)
        w.end("a")
        assert moving != look_moving(agent.ports)
        w.machine.remove_instance(0, start=2)
        assert before != look_idle(agent.ports)
        w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
        gone = look_idle(agent.ports)
        assert gone.driver
        assert gone == look_idle(agent.ports)
        w.kubelet_down = True
        assert not look_idle(agent.ports).kubelet_answers
        assert not look_moving(agent.ports).kubelet_answers


def test_change_on_the_machine_brings_a_pass(world: Make, tmp_path: Path) -> None:
    """An idle agent that looks and finds the cards changed does not wait for its time."""
    w = world(A100)
    mailbox = Mailbox()
    time = [0.0]
    with w.agent(look_s=0.0) as agent:
        passes = Passes(agent, mailbox, Done(), Done())
        w.machine.add_instance(0, "1g", start=0)
        worker = Worker(passes, mailbox, lock_in(tmp_path), lambda: time[0])  # type: ignore[arg-type]
        worker.run()
    assert 2 == passes.count


@pytest.mark.parametrize(("blockers", "at_once"), [((), False), (("default/stays",), False), (("default/gone",), True)])
def test_end_of_who_was_in_the_way_brings_a_pass(
    world: Make, tmp_path: Path, blockers: tuple[str, ...], at_once: bool
) -> None:
    """Those because of whom an attempt was given up are looked for between passes, and nobody else."""
    w, mailbox, clock = world(A100, cut=(("1g", 0), ("2g", 2))), Mailbox(), Monotonic()
    w.pod("stays")
    with w.agent(look_s=0.0) as agent:
        passes = Passes(agent, mailbox, Wait("DrainTimeout", 300.0), Done())
        passes.memory.blockers, passes.seen = frozenset(blockers), look_idle(agent.ports)
        Worker(passes, mailbox, lock_in(tmp_path), clock).run()  # type: ignore[arg-type]
    assert 2 == passes.count
    assert at_once is (clock.time < 100)


def test_nobody_has_gone_while_the_kubelet_is_silent(world: Make) -> None:
    """It says nothing about pods then."""
    w = world(A100)
    with w.agent() as agent:
        assert have_gone(agent.ports, {"default/gone"})
        w.kubelet_down = True
        assert not have_gone(agent.ports, {"default/gone"})


# -- kopf --


class Rings:
    """A worker that keeps what it is told."""

    def __init__(self, *, healthy: bool = True) -> None:
        self.told: list[News] = []
        self.healthy = healthy
        self.silent_s = 1.4
        self.life: list[str] = []

    def deliver(self, news: News) -> None:
        """Keep it."""
        self.told.append(news)

    def start(self) -> None:
        """Note it."""
        self.life.append("start")

    def stop(self) -> None:
        """Note it."""
        self.life.append("stop")


def event(kind: str | None = "MODIFIED", **metadata: object) -> Any:  # noqa: ANN401 - kopf's own type
    return {"type": kind, "object": {"metadata": {"name": "n1", "uid": "u", "generation": 1, **metadata}}}


def test_bell_rings_for_news_only() -> None:
    """Our own status patches come back with the same generation; another object is not ours."""
    worker = Rings()
    bell = Bell(worker, "n1")  # type: ignore[arg-type]
    for one in (
        event(None),
        event(),
        event(name="n2", generation=9),
        event(generation=2),
        event(generation=2, deletionTimestamp="t"),
        event("DELETED", generation=2),
        event(None, uid="v"),
    ):
        bell.receive(one)
    assert [news(), news(2), news(2, ending=True), news(uid="v")] == worker.told


def test_kopf_watches_one_object() -> None:
    """Field selectors on the server limit the watch to our MIGNode and to its definition."""
    settings = kopf.OperatorSettings()
    configure(settings, "n1")
    selectors = settings.watching.field_selectors
    assert "metadata.name=n1" == selectors["migmanager.io", "v1alpha1", "mignodes"]
    assert not settings.posting.enabled
    assert isinstance(settings.networking.error_backoffs, EndlessBackoffs)


def test_registry_has_what_an_agent_needs() -> None:
    """Probe, start and stop reach the worker; an unhealthy one fails the probe at once."""
    worker = Rings()
    registry = registry_for(worker, "n1", None)  # type: ignore[arg-type]
    activities = {h.id.rpartition(".")[2].rpartition("/")[2]: h.fn for h in registry._activities._handlers}
    assert {"start", "stop", "login", "silent_seconds"} <= set(activities)
    probe: Any = activities["silent_seconds"]
    stop: Any = activities["stop"]
    assert 1 == probe()
    stop()
    worker.healthy = False
    with pytest.raises(kopf.PermanentError, match="no sign of life"):
        probe()
    assert ["stop"] == worker.life
