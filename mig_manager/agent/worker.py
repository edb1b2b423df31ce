"""The one thread that does everything: a pass, then waiting for a reason for the next.

Synchronous, because NVML blocks and draining is polling anyway. The probe sees its heartbeat: a pass that hangs in the
driver, or a thread that died, is an agent that must be restarted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mig_manager.agent.agent import Agent
from mig_manager.agent.drift import have_gone, look_idle, look_moving
from mig_manager.agent.mailbox import Mailbox, News
from mig_manager.agent.pacing import Pacing
from mig_manager.agent.results import Done, Wait
from mig_manager.gpu.lock import HostLock, LockedError

_log = logging.getLogger(__name__)

LOCK_RETRY_S = 2.0
CRASH_RETRY_S = 30.0
STUCK_S = 900.0
"""A pass may take this long: resets and slow drivers do. After that the probe says no."""

JOIN_S = 20.0

MOVING_S = 10.0
"""What a step wants to look at again within this time is moving: pods that leave, clients that come back."""

MOVING_LOOK_S = 0.3


class Worker:
    """Runs the agent's passes in a thread of its own, under the host lock, which it holds for life."""

    def __init__(
        self, agent: Agent, mailbox: Mailbox, take_lock: Callable[[], HostLock], monotonic: Callable[[], float]
    ) -> None:
        self._agent = agent
        self._mailbox = mailbox
        self._take_lock = take_lock
        self._monotonic = monotonic
        self._pacing = Pacing(agent.settings.resync_s)
        self._thread = threading.Thread(target=self.run, name="reconciler", daemon=True)
        self._heartbeat = monotonic()
        self._said = ("", "")

    def start(self) -> None:
        """Begin."""
        self._heartbeat = self._monotonic()
        self._thread.start()

    def deliver(self, news: News) -> None:
        """Something is new, unless the last pass has read it already."""
        self._mailbox.deliver(news)

    def stop(self) -> None:
        """End after the pass that is running; one that hangs in the driver is left to the end of the process."""
        self._mailbox.close()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    @property
    def silent_s(self) -> float:
        """For how many seconds nothing was heard of the thread."""
        return self._monotonic() - self._heartbeat

    @property
    def healthy(self) -> bool:
        """Whether the thread lives and moves."""
        return self._thread.is_alive() and self.silent_s < STUCK_S

    def run(self) -> None:
        """Passes until the mailbox is closed."""
        lock = self._locked()
        if lock is None:
            return
        try:
            while not self._mailbox.closed:
                self._wait(*self._pass())
        finally:
            lock.release()

    def _locked(self) -> HostLock | None:
        """The host lock; another agent on this host, an older one that is ending, has it for a while."""
        said = False
        while not self._mailbox.closed:
            self._heartbeat = self._monotonic()
            try:
                return self._take_lock()
            except LockedError as error:
                if not said:
                    _log.warning("%s", error)
                    said = True
                self._mailbox.wait(LOCK_RETRY_S)
        return None

    def _pass(self) -> tuple[float, bool]:
        """One pass; the seconds until the next, and whether something is moving meanwhile."""
        self._heartbeat = self._monotonic()
        try:
            ending = self._agent.run_pass()
        except Exception:  # noqa: BLE001 - see below
            # A defect must not take the agent away: the node may be in the middle of something.
            _log.exception("a pass failed; the next one starts at the top")
            return CRASH_RETRY_S, False
        reason = "Ready" if isinstance(ending.result, Done) else getattr(ending.result, "reason", "")
        if (ending.step, reason) != self._said and not (isinstance(ending.result, Wait) and reason == "Conflict"):
            _log.info("%s at step %s: %s", reason, ending.step, getattr(ending.result, "message", ""))
            self._said = (ending.step, reason)
        moving = isinstance(ending.result, Wait) and ending.result.retry_after_s <= MOVING_S
        return self._pacing.after(ending.result), moving

    def _wait(self, seconds: float, moving: bool) -> None:
        """Wait for news, for the time to be over, or for a change on this machine."""
        ports = self._agent.ports
        until = self._monotonic() + seconds
        look, interval = (look_moving, MOVING_LOOK_S) if moving else (look_idle, self._agent.settings.look_s)
        # An idle agent compares with what its pass saw, so that nothing is lost in between; when things move the next
        # pass is near anyway.
        seen = look_moving(ports) if moving else self._agent.seen
        while not self._mailbox.closed:
            self._heartbeat = self._monotonic()
            left = until - self._heartbeat
            if left <= 0 or self._mailbox.wait(min(left, interval), self._agent.read):
                return
            if self._monotonic() < until and (look(ports) != seen or (not moving and self._blockers_have_gone())):
                return

    def _blockers_have_gone(self) -> bool:
        """Whether those have gone because of whom an attempt was given up; the next pass may let another begin."""
        return have_gone(self._agent.ports, self._agent.memory.blockers)
