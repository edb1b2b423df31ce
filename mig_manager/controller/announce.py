"""Events: one per transition, on the object that it is about.

A transition is a write that went through, compared with what the object said before. So a restart announces nothing
that was announced already, and what is lost with a process that dies between write and Event stays lost: an Event is
for people, the truth is in the status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mig_manager.controller.grant import Write
from mig_manager.controller.records import READY, ConfigRecord
from mig_manager.kube import events
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.port import Cluster

logger = logging.getLogger(__name__)

_NO_TROUBLE = frozenset({"Ready", "Updating", "Pending", "Paused", "NoNodes"})
"""Reasons of the condition Ready that need nobody's attention."""


class Announcer:
    """Posts Events. One that cannot be posted is logged and given up."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now

    def pool(self, before: ConfigRecord, after: Mapping[str, Any]) -> None:
        """Say on a MIGConfig that its pool's state changed, if it did. ``after`` is the object as written."""
        former = next((c.reason for c in before.conditions if c.type == READY), "")
        condition = next(c for c in after["status"]["conditions"] if c["type"] == READY)
        reason, message = condition["reason"], condition["message"]
        if reason != former:
            logger.info("pool changed: config=%s reason=%s was=%s: %s", before.name, reason, former or "-", message)
            self._post(after, reason, message, trouble=reason not in _NO_TROUBLE)

    def node(self, write: Write, after: Mapping[str, Any]) -> None:
        """Say on a MIGNode what was decided about it, if that concerns people. ``after`` is the object as written."""
        if write.desired is not None and write.desired.error:
            reason, _, text = write.desired.error.partition(": ")
            self._post(after, reason, text, trouble=True)
        if write.revoke:
            self._post(after, "GrantRevoked", write.why)
        elif write.grant is not None and write.grant.slot:
            self._post(after, "SlotGranted", f"profile {write.grant.layout.name}: {write.why}")

    def _post(self, regarding: Mapping[str, Any], reason: str, message: str, *, trouble: bool = False) -> None:
        event_type = events.EventType.WARNING if trouble else events.EventType.NORMAL
        try:
            events.post(
                self._cluster, regarding, event_type=event_type, reason=reason, message=message, now=self._now()
            )
        except ClusterError as error:
            logger.warning("%s; the Event %s is lost", error, reason)
