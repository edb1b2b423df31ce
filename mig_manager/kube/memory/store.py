"""The objects of a cluster in memory, their versions, and what writing one does to its metadata."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mig_manager.kube.kinds import DAEMON_SET, KINDS, MIG_CONFIG, MIG_NODE, NODE, POD, POD_DISRUPTION_BUDGET, Kind
from mig_manager.kube.memory.copying import copied
from mig_manager.kube.port import Object

Key = tuple[Kind, str | None, str]
"""Kind, namespace and name."""

WITH_STATUS = frozenset({NODE, POD, DAEMON_SET, POD_DISRUPTION_BUDGET, MIG_CONFIG, MIG_NODE})
"""Kinds whose status is written by the subresource ``status`` alone."""

WITH_GENERATION = frozenset({DAEMON_SET, POD_DISRUPTION_BUDGET, MIG_CONFIG, MIG_NODE})
"""Kinds whose ``metadata.generation`` counts the changes of everything but metadata and status."""

SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "deletionTimestamp")
"""Metadata that a client cannot set."""

OWN_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""Metadata that clients set and the server does not store when it is empty."""

CORDON_FIELDS: dict[str, Any] = {"f:spec": {"f:unschedulable": {}}}
"""Ownership of a Node's ``spec.unschedulable`` in ``managedFields``."""


def annotation_fields(name: str) -> dict[str, Any]:
    """Ownership of an annotation there."""
    return {"f:metadata": {"f:annotations": {f"f:{name}": {}}}}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object; ``body`` is ``None`` when it was removed."""

    resource_version: int
    key: Key
    body: Object | None


@dataclass
class Store:
    """What all clients of one cluster in memory share."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    expected_pods: dict[tuple[str, str], int] = field(default_factory=dict)
    """By namespace and name of a PodDisruptionBudget: the replicas that its workload wants. Without an entry it is the
    number of pods that match, which sinks as they go."""
    served: frozenset[Kind] = frozenset(KINDS)

    terminating: set[str] = field(default_factory=set)
    """Namespaces that are being deleted: nothing is created there, and no pod evicted."""

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self._objects: dict[Key, Object] = {}
        self._versions: list[Version] = []
        self._counter = itertools.count(1)
        self._uids = itertools.count(1)

    @property
    def resource_version(self) -> int:
        """The version of the last write, 0 before the first."""
        return self._versions[-1].resource_version if self._versions else 0

    def find(self, key: Key) -> Object | None:
        """The object itself, not a copy."""
        return self._objects.get(key)

    def of_kind(self, kind: Kind, namespace: str | None = None) -> Iterator[tuple[Key, Object]]:
        """All objects of a kind in the order in which the API lists them."""
        for key in sorted((key for key in self._objects if key[0] == kind), key=lambda key: (key[1] or "", key[2])):
            if namespace is None or key[1] == namespace:
                yield key, self._objects[key]

    def history(self, kind: Kind, name: str, namespace: str | None = None) -> list[Version]:
        """Every version of an object, oldest first: what a watcher sees, or still sees when it lags."""
        with self.lock:
            wanted = (kind, namespace, name)
            return [_copy_of(version) for version in self._versions if version.key == wanted]

    def history_since(self, resource_version: int) -> list[Version]:
        """What was written after that version, oldest first: a watch from there."""
        with self.lock:
            return [_copy_of(version) for version in self._versions if version.resource_version > resource_version]

    def insert(self, key: Key, body: Object, manager: str) -> Object:
        """Put a new object there with fresh uid and times; the caller has looked that there is none."""
        kind, _, name = key
        metadata = {
            **{field: value for field, value in body["metadata"].items() if field not in SERVER_FIELDS},
            "name": name,
            "uid": f"00000000-0000-4000-8000-{next(self._uids):012d}",
            "creationTimestamp": self.timestamp(),
        }
        if key[1] is not None:
            metadata["namespace"] = key[1]
        if kind in WITH_GENERATION:
            metadata["generation"] = 1
        created = normalise(kind, {**body, "metadata": metadata})
        if kind.is_custom or kind in (DAEMON_SET, POD_DISRUPTION_BUDGET):
            created.pop("status", None)
        elif kind == POD:
            created["status"] = {"phase": "Pending"}
        return self._record(key, _with_owner(kind, {}, created, manager, self.timestamp()))

    def replace(self, key: Key, changed: Object, manager: str, subresource: str | None) -> Object:
        """Write a changed object as far as the resource or subresource may; an unchanged one makes no version."""
        kind, current = key[0], self._objects[key]
        new = normalise(kind, copied(changed))
        if subresource == "status":
            kept = {field: value for field, value in current.items() if field not in ("status", "metadata")}
            # The status of a custom resource is all that its subresource writes; built-in kinds take metadata along.
            metadata = current["metadata"] if kind.is_custom else new["metadata"]
            new = {**kept, "metadata": metadata, **({"status": new["status"]} if "status" in new else {})}
        elif kind in WITH_STATUS:
            new.pop("status", None)
            if "status" in current:
                new["status"] = current["status"]
        new["metadata"] = {
            **{field: value for field, value in new["metadata"].items() if field not in SERVER_FIELDS},
            **{field: current["metadata"][field] for field in SERVER_FIELDS if field in current["metadata"]},
        }
        if new == current:
            return current
        if kind in WITH_GENERATION and _content(new) != _content(current):
            new["metadata"]["generation"] = current["metadata"]["generation"] + 1
        return self._record(key, _with_owner(kind, current, new, manager, self.timestamp()))

    def mark_deleted(self, key: Key, grace_s: int) -> None:
        """Begin the graceful deletion of a pod, or shorten one that has begun.

        The ``deletionTimestamp`` is when the grace period ends, counted from the first deletion (``BeforeDelete`` in
        k8s.io/apiserver).
        """
        changed = copied(self._objects[key])
        metadata = changed["metadata"]
        before = metadata.get("deletionGracePeriodSeconds")
        if before is None or grace_s < before:
            end = datetime.fromisoformat(metadata["deletionTimestamp"]) if before is not None else self.now()
            end += timedelta(seconds=grace_s - (before or 0))
            metadata |= {"deletionTimestamp": _timestamp(end), "deletionGracePeriodSeconds": grace_s}
            self._record(key, changed)

    def remove(self, key: Key) -> None:
        """Take the object away."""
        del self._objects[key]
        self._versions.append(Version(next(self._counter), key, None))

    def timestamp(self) -> str:
        """The present as the API writes it."""
        return _timestamp(self.now())

    def _record(self, key: Key, body: Object) -> Object:
        number = next(self._counter)
        body = copied(body)
        body["metadata"]["resourceVersion"] = str(number)
        self._objects[key] = body
        self._versions.append(Version(number, key, copied(body)))
        return body


def normalise(kind: Kind, body: Object) -> Object:
    """The object as the server stores it: what is empty is not written for ``omitempty`` fields."""
    metadata = body["metadata"]
    for name in OWN_METADATA:
        if name in metadata and not metadata[name]:
            del metadata[name]
    if kind == NODE:
        spec = body.setdefault("spec", {})
        for name in ("unschedulable", "taints"):
            if name in spec and not spec[name]:
                del spec[name]
    return {**body, "apiVersion": kind.api_version, "kind": kind.name}


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _copy_of(version: Version) -> Version:
    return replace(version, body=copied(version.body))


def _content(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("metadata", "status")}


def _with_owner(kind: Kind, before: Mapping[str, Any], after: Object, manager: str, time: str) -> Object:
    """Record who owns ``spec.unschedulable`` and annotations of a Node: whoever changed the value of each.

    A removed field has no owner. Like the API server it keeps no record for an object that was created without any
    field of its own.
    """
    if kind != NODE:
        return after
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1"}
    metadata = after["metadata"]
    if not before and (metadata.keys() & OWN_METADATA or after["spec"] or after.get("status")):
        metadata["managedFields"] = [{**entry, "fieldsV1": {"f:metadata": {}}}]
    if "managedFields" not in metadata:
        return after
    changes = [(CORDON_FIELDS, before.get("spec", {}).get("unschedulable"), after["spec"].get("unschedulable"))]
    old, new = (body.get("metadata", {}).get("annotations") or {} for body in (before, after))
    changes += [(annotation_fields(name), old.get(name), new.get(name)) for name in sorted({*old, *new})]
    for fields, was, now in changes:
        if was != now:
            others = [one for one in metadata["managedFields"] if one["fieldsV1"] != fields]
            metadata["managedFields"] = [*others, *([{**entry, "fieldsV1": fields}] if now is not None else [])]
    return after
