"""One controller at a time: a Lease that is taken by compare and swap, renewed, and never outlived.

A Lease alone cannot stop a process that sleeps past its end and then writes. That is why grants name their author
(``by``) and the agents compare it with the Lease before they take a slot up. What the Lease has to give is a unique
holder: the identity is made anew at every start of the process.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mig_manager.controller.settings import LEASE_NAME, Settings
from mig_manager.kube.errors import ClusterError, NotFoundError
from mig_manager.kube.kinds import LEASE
from mig_manager.kube.port import Cluster, Object

logger = logging.getLogger(__name__)


def new_identity() -> str:
    """An identity that no process has had before: the host's name, for people, and a random part."""
    return f"{socket.gethostname()[:60]}_{uuid.uuid4()}"


@dataclass(slots=True)
class _Seen:
    """The Lease as it was seen first in its present form, by this process's clock."""

    content: tuple[str, str]
    since: float


class LeaseKeeper:
    """Takes the Lease and keeps it.

    Whether another holder has died is judged by this process's own clock: the Lease has not changed for its whole
    duration while we looked. Clocks of other machines are not trusted, as in client-go's leader election.
    """

    def __init__(self, cluster: Cluster, settings: Settings, identity: str, monotonic: Callable[[], float]) -> None:
        self.identity = identity
        self._cluster = cluster
        self._settings = settings
        self._monotonic = monotonic
        self._seen: _Seen | None = None
        self._renewed_at = 0.0

    def acquire(self, stop: threading.Event, beat: Callable[[], None]) -> bool:
        """Wait until the Lease is ours; false when ``stop`` came first. ``beat`` is called at every try."""
        waiting = False
        while not stop.is_set():
            beat()
            try:
                if self.try_once():
                    logger.info("lease taken: identity=%s", self.identity)
                    return True
                if not waiting:
                    holder = self._seen.content[0] if self._seen else ""
                    logger.info("waiting for the lease: holder=%s", holder)
                    waiting = True
            except ClusterError as error:
                logger.warning("%s", error)
            stop.wait(self._settings.lease_renew_s)
        return False

    def keep(self, stop: threading.Event, lost: Callable[[str], None]) -> None:
        """Renew until ``stop``; call ``lost`` when somebody else has it, or nobody answered until the deadline.

        The deadline lies before the end of the Lease, so that this process is gone when another may take it.
        """
        while not stop.wait(self._settings.lease_renew_s):
            try:
                if not self.try_once():
                    lost("somebody else has the lease")
                    return
            except ClusterError as error:
                silent_s = self._monotonic() - self._renewed_at
                logger.warning("%s; not renewed for %.0f s", error, silent_s)
                if silent_s >= self._settings.lease_deadline_s:
                    lost(f"the lease could not be renewed for {silent_s:.0f} s")
                    return

    def try_once(self) -> bool:
        """Take or renew the Lease if that is possible now; whether it is ours.

        Raises ClusterError; ConflictError when somebody wrote it meanwhile, so that only the next try can tell.
        """
        started = self._monotonic()
        namespace = self._settings.namespace
        try:
            lease = self._cluster.get(LEASE, LEASE_NAME, namespace)
        except NotFoundError:
            self._cluster.create(LEASE, {"metadata": {"name": LEASE_NAME}, "spec": self._spec({})}, namespace)
            self._renewed_at = started
            return True
        if not self._may_take(lease, started):
            return False
        body = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": self._spec(lease)}
        self._cluster.patch(LEASE, LEASE_NAME, body, namespace)
        self._renewed_at = started
        return True

    @property
    def fresh(self) -> bool:
        """Whether the last renewal is young enough to write under it."""
        return self._monotonic() - self._renewed_at < self._settings.lease_deadline_s

    def release(self) -> None:
        """Give the Lease back at the end of an orderly stop, so that a successor need not wait. Raises ClusterError."""
        lease = self._cluster.get(LEASE, LEASE_NAME, self._settings.namespace)
        if lease.get("spec", {}).get("holderIdentity") == self.identity:
            version = lease["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": None}}
            self._cluster.patch(LEASE, LEASE_NAME, body, self._settings.namespace)
            logger.info("lease given back: identity=%s", self.identity)

    def _may_take(self, lease: Object, now: float) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True
        content = (holder, lease["metadata"]["resourceVersion"])
        if self._seen is None or self._seen.content != content:
            self._seen = _Seen(content, now)
        duration: float = spec.get("leaseDurationSeconds", self._settings.lease_duration_s)
        return now - self._seen.since >= duration

    def _spec(self, lease: Mapping[str, Any]) -> dict[str, Any]:
        former = lease.get("spec") or {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = former.get("holderIdentity") == self.identity
        changes = former.get("leaseTransitions", 0) + (0 if mine or not lease else 1)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._settings.lease_duration_s),
            "acquireTime": former.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": changes,
        }
