"""Carrying decisions out: one request per decision, on exactly the version that was decided on.

A write that conflicts is not repeated: the object is read anew and the next pass decides again. A write whose answer
got lost may have gone through, or may still do so; until that is settled a slot that it gave counts as given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mig_manager.controller.grant import Write
from mig_manager.controller.records import MIGNodeRecord
from mig_manager.controller.store import Store, Table, version_of
from mig_manager.kube.errors import (
    ClusterError,
    ConflictError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE, Kind
from mig_manager.kube.port import Cluster, Object, PatchType

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 2.0
LONGEST_BACKOFF_S = 300.0

REQUEST_LIFE_S = 75.0
"""How long a request may still take effect after its sender gave up: kube-apiserver ends requests after 60 s
(``--request-timeout``), and a proxy may hold them for a moment."""


class ServerBusyError(Exception):
    """The API server does not answer, or asks for patience: the rest of the pass can wait for ``wait_s``."""

    def __init__(self, error: ClusterError, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(str(error))


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A slot that may have been given: for which pool, on which version, and until when it may still happen."""

    config: str
    version: int
    until: float


@dataclass(frozen=True, slots=True)
class _Backoff:
    failures: int
    until: float


class Writer:
    """Writes to the cluster, and keeps the store as new as its own writes."""

    def __init__(self, cluster: Cluster, store: Store, monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._store = store
        self._monotonic = monotonic
        self._doubts: dict[str, _Doubt] = {}
        self._backoffs: dict[tuple[Kind, str], _Backoff] = {}

    def spec(self, write: Write, version: int) -> Object | None:
        """Change a MIGNode's spec on that version; the object afterwards, or ``None`` when it did not go through."""

        def send() -> Object:
            return self._cluster.patch(MIG_NODE, write.name, operations(write, version), patch_type=PatchType.JSON)

        try:
            made = self._attempt(MIG_NODE, write.name, send)
        except ServerBusyError as busy:
            if write.grant is not None and write.takes_slot and isinstance(busy.__cause__, UnavailableError):
                until = self._monotonic() + REQUEST_LIFE_S
                self._doubts[write.name] = _Doubt(write.grant.config, version, until)
            raise
        if made is not None:
            self._doubts.pop(write.name, None)
        return made

    def create(self, body: Mapping[str, Any]) -> Object | None:
        """Create a MIGNode."""
        return self._attempt(MIG_NODE, body["metadata"]["name"], lambda: self._cluster.create(MIG_NODE, body))

    def delete(self, record: MIGNodeRecord, version: int) -> bool:
        """Delete exactly this version of a MIGNode; whether that is done."""
        done = False

        def send() -> None:
            nonlocal done
            self._cluster.delete(MIG_NODE, record.name, uid=record.uid, resource_version=str(version))
            self._store.mignodes.remove(record.name, version)
            done = True

        self._attempt(MIG_NODE, record.name, send)
        return done

    def status(self, name: str, status: Mapping[str, Any]) -> Object | None:
        """Write a MIGConfig's status, which nobody else writes."""
        return self._attempt(
            MIG_CONFIG, name, lambda: self._cluster.patch(MIG_CONFIG, name, {"status": status}, subresource="status")
        )

    def read(self, kind: Kind, name: str) -> Object | None:
        """Read an object live into the store; ``None`` when it is really not there. ServerBusyError otherwise."""
        table = self._table(kind)
        known = table.version(name)
        try:
            found = self._cluster.get(kind, name)
        except NotFoundError:
            # Not a younger one, which a watch may have brought meanwhile.
            table.remove(name, known)
            return None
        except ClusterError as error:
            raise ServerBusyError(error, FIRST_BACKOFF_S) from error
        table.put(found)
        return found

    def settle_doubts(self) -> dict[str, str]:
        """Look what became of writes without an answer; the nodes that may have a slot unseen, with their pools."""
        for name, doubt in list(self._doubts.items()):
            late = self._monotonic() >= doubt.until
            found = self.read(MIG_NODE, name)
            # Any newer version settles it: either it is that write, or it has made that write impossible.
            if found is None or late or version_of(found) != doubt.version:
                del self._doubts[name]
        return {name: doubt.config for name, doubt in self._doubts.items()}

    def may(self, kind: Kind, name: str) -> bool:
        """Whether an object can be written again after failures."""
        backoff = self._backoffs.get((kind, name))
        return backoff is None or self._monotonic() >= backoff.until

    def _attempt(self, kind: Kind, name: str, send: Callable[[], Object | None]) -> Object | None:
        try:
            made = send()
        except (UnavailableError, TooManyRequestsError) as error:
            wait_s = error.retry_after_s if isinstance(error, TooManyRequestsError) else 0.0
            raise ServerBusyError(error, max(FIRST_BACKOFF_S, wait_s)) from error
        except (ConflictError, NotFoundError) as error:
            logger.debug("%s; deciding again", error)
            self.read(kind, name)
            return None
        except ClusterError as error:
            self._fail(kind, name, error)
            return None
        self._backoffs.pop((kind, name), None)
        if made is not None:
            self._table(kind).put(made)
        return made

    def _fail(self, kind: Kind, name: str, error: ClusterError) -> None:
        known = self._backoffs.get((kind, name))
        failures = 1 if known is None else known.failures + 1
        wait_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 10))
        self._backoffs[kind, name] = _Backoff(failures, self._monotonic() + wait_s)
        logger.error("%s; trying again in %.0f s", error, wait_s)

    def _table(self, kind: Kind) -> Table[Any]:
        tables: dict[Kind, Table[Any]] = {
            MIG_NODE: self._store.mignodes,
            MIG_CONFIG: self._store.configs,
            NODE: self._store.nodes,
        }
        return tables[kind]


def operations(write: Write, version: int) -> list[dict[str, Any]]:
    """A write as JSON patch. With a merge patch, what the former wish or grant had and the new one lacks would stay.

    The resourceVersion in it makes the server refuse it (409) on any other version of the object.
    """
    made: list[dict[str, Any]] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": str(version)}]
    if write.clear:
        made.append({"op": "remove", "path": "/spec/desired"})
    if write.desired is not None:
        made.append({"op": "add", "path": "/spec/desired", "value": write.desired.to_dict()})
    if write.grant is not None:
        made.append({"op": "add", "path": "/spec/grant", "value": write.grant.to_dict()})
    if write.revoke:
        made.append({"op": "add", "path": "/spec/grant/revoked", "value": True})
    return made
