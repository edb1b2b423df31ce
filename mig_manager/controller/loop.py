"""The controller's passes: what the store says is turned into decisions, and these are carried out.

One thread does it, one pass at a time and at least a second apart. Every pass starts from scratch: it needs no memory
of the one before, only the store, and so nothing that a crash could lose.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from datetime import datetime

from mig_manager.controller.agents import Timers
from mig_manager.controller.announce import Announcer
from mig_manager.controller.pools import Claims, Survey, survey
from mig_manager.controller.settings import Settings
from mig_manager.controller.store import Store
from mig_manager.controller.work import Worklist
from mig_manager.controller.writer import ServerBusyError, Writer
from mig_manager.kube.errors import ClusterError, TooManyRequestsError
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE, POD
from mig_manager.kube.port import Cluster

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 30.0
"""Between attempts while the API server does not answer."""


class LeaseLostError(Exception):
    """This process must not write any more."""


class Loop:
    """Decides and writes, as long as ``leads`` says that the Lease is ours."""

    def __init__(  # noqa: PLR0913 - the ports, and who it is
        self,
        cluster: Cluster,
        store: Store,
        settings: Settings,
        identity: str,
        *,
        leads: Callable[[], bool],
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._identity = identity
        self._leads = leads
        self._monotonic = monotonic
        self._now = now
        self._bell = threading.Event()
        self._timers = Timers(monotonic)
        self._claims = Claims()
        self._writer = Writer(cluster, store, monotonic)
        self._announcer = Announcer(cluster, now)
        self._failures = 0

    def ring(self) -> None:
        """Something has changed: a pass is due. Many rings before it make one pass."""
        self._bell.set()

    def run(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        """List everything, then pass after pass until ``stop``; ``beat`` is called once per round.

        Raises LeaseLostError when the Lease is no longer fresh.
        """
        resync_at, wait_s = self._monotonic(), 0.0
        while not stop.is_set():
            self._bell.clear()
            beat()
            started = self._monotonic()
            try:
                if started >= resync_at:
                    self.refresh()
                    resync_at = started + self._settings.resync_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
                wait_s = self.pass_once()
                self._failures = 0
            except (ServerBusyError, ClusterError) as error:
                self._failures += 1
                wait_s = min(LONGEST_WAIT_S, max(_asked_s(error), 2.0 ** min(self._failures, 10)))
                logger.warning("%s; next attempt in %.0f s", error, wait_s)
                stop.wait(wait_s)
                self._bell.set()
            until_resync_s = resync_at - self._monotonic()
            stop.wait(self._settings.pass_interval_s)
            self._wait(stop, min(wait_s, max(0.0, until_resync_s)) - self._settings.pass_interval_s)

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait for the bell, so long at most; ``stop`` is looked at now and then, and ``ring`` ends it at once."""
        deadline = self._monotonic() + seconds
        while not stop.is_set() and (rest := deadline - self._monotonic()) > 0:
            if self._bell.wait(min(rest, 1.0)):
                return

    def refresh(self) -> None:
        """Bring the store up to date from complete lists: watches lose events in their gaps. Raises ClusterError."""
        self._store.configs.sync(self._cluster.pages(MIG_CONFIG))
        self._store.mignodes.sync(self._cluster.pages(MIG_NODE))
        self._store.nodes.sync(self._cluster.pages(NODE))
        if self._settings.agent_selector:
            agents = self._cluster.pages(POD, self._settings.namespace, labels=self._settings.agent_selector)
            self._store.agents.sync(agents)

    def pass_once(self) -> float:
        """Decide about everything and carry it out; after how many seconds to come again unless the bell rings.

        Raises ServerBusyError when the API server does not answer, LeaseLostError.
        """
        doubts = self._writer.settle_doubts()
        found = survey(
            self._store,
            self._claims,
            self._timers,
            doubts=doubts,
            identity=self._identity,
            now=self._now(),
            watches_agents=bool(self._settings.agent_selector),
        )
        work = Worklist(self._writer, self._announcer, self._store)
        until = self._monotonic() + self._settings.write_time_s
        worked = work.carry_out(found, self._settings.writes_per_pass, lambda: self._may_go_on(until))
        self._write_statuses(found)
        if worked:
            return 0.0
        tick_s = self._settings.resync_s if found.settled else self._settings.tick_s
        return min([tick_s, *found.wake_s])

    def _write_statuses(self, found: Survey) -> None:
        for record, status in found.statuses:
            self._check_lease()
            if self._writer.may(MIG_CONFIG, record.name):
                written = self._writer.status(record.name, status)
                if written is not None:
                    self._announcer.pool(record, written)

    def _may_go_on(self, until: float) -> bool:
        self._check_lease()
        return self._monotonic() < until

    def _check_lease(self) -> None:
        if not self._leads():
            raise LeaseLostError("the lease was not renewed in time")


def _asked_s(error: ServerBusyError | ClusterError) -> float:
    """For how much patience the server asks, in seconds."""
    if isinstance(error, ServerBusyError):
        return error.wait_s
    return error.retry_after_s if isinstance(error, TooManyRequestsError) else 0.0
