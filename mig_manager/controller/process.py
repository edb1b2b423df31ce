"""The controller's life: wait for the Lease, list, decide until told to stop.

It may watch before it has the Lease, so that it can take over at once; whatever it has seen until then is brought up
to date by complete lists before the first decision.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from mig_manager.controller.lease import LeaseKeeper
from mig_manager.controller.loop import LeaseLostError, Loop
from mig_manager.controller.settings import Settings
from mig_manager.controller.store import Store
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.port import Cluster

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 20.0
"""For a pass to end: below a pod's usual terminationGracePeriodSeconds of 30."""

SILENT_AFTER_S = 120.0
"""A pass of 250 writes takes seconds; an API server that does not answer takes 35 s per request."""


def leave(reason: str) -> None:
    """End the process here and now: without the Lease not one more request may go out, whatever is under way."""
    logger.critical("ending: %s", reason)
    logging.shutdown()
    os._exit(1)


class Process:
    """The threads of one controller. ``lost`` is called when the Lease is lost, and does not return in production."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        identity: str,
        monotonic: Callable[[], float],
        lost: Callable[[str], None] = leave,
    ) -> None:
        self.store = Store()
        self._monotonic = monotonic
        self._lost = lost
        self._lease = LeaseKeeper(cluster, settings, identity, monotonic)
        self.loop = Loop(
            cluster,
            self.store,
            settings,
            identity,
            leads=lambda: self._lease.fresh,
            monotonic=monotonic,
            now=cluster.now,
        )
        self._stop = threading.Event()
        self._worker = threading.Thread(target=self._work, name="controller")
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._beat = monotonic()

    def start(self) -> None:
        """Start waiting for the Lease."""
        self._worker.start()

    def stop(self) -> None:
        """End after the present pass and give the Lease back; a second call does nothing."""
        self._stop.set()
        self.loop.ring()
        self._worker.join(STOP_TIMEOUT_S)
        if self._worker.is_alive():
            # It may still write, so the Lease must not be given back: it runs out.
            logger.warning("the present pass does not end; the lease runs out by itself")

    @property
    def silent_s(self) -> float:
        """For how many seconds the worker has shown no sign of life."""
        return self._monotonic() - self._beat

    @property
    def healthy(self) -> bool:
        """Whether the worker lives."""
        return self._worker.is_alive() and self.silent_s < SILENT_AFTER_S

    def _work(self) -> None:
        if not self._lease.acquire(self._stop, self._heartbeat):
            return
        self._keeper.start()
        try:
            self.loop.run(self._stop, self._heartbeat)
        except LeaseLostError as error:
            self._lost(str(error))
            return
        except Exception:
            # A mistake of ours: better a new process, which begins with fresh lists, than one that does nothing.
            logger.exception("the controller's loop failed")
            self._lost("the controller's loop failed")
            return
        self._keeper.join()
        try:
            self._lease.release()
        except ClusterError as error:
            logger.warning("%s; the lease runs out by itself", error)

    def _keep(self) -> None:
        self._lease.keep(self._stop, self._lost)

    def _heartbeat(self) -> None:
        self._beat = self._monotonic()
