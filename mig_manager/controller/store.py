"""The controller's copies of the objects it watches, never older than what it has once seen.

Copies come from three sources in any order: watch events, own lists, and the answers to own writes. The newest version
wins, by ``metadata.resourceVersion`` compared as an integer. That is an assumption about the API server: it holds for
etcd's revisions, which all of Kubernetes' own and custom resources use, and Kubernetes has made it a promise (KEP-5504,
comparable resource versions). Without it a watch event that was under way during an own write would put the older copy
back, and a slot could be given twice.

A watch loses deletions when it has to start anew. ``sync`` puts that right from a list, which is complete and says at
which version it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from mig_manager.controller.records import AgentRecord, ConfigRecord, MIGNodeRecord, NodeRecord
from mig_manager.kube.port import Listing

R = TypeVar("R")


class Table(Generic[R]):
    """The records of one kind by name (``namespace/name`` where there are namespaces); safe to use from threads."""

    def __init__(self, read: Callable[[Mapping[str, Any], R | None], R]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._records: dict[str, R] = {}
        self._versions: dict[str, int] = {}

    def put(self, obj: Mapping[str, Any]) -> bool:
        """Take in a version of an object, unless a newer one is known; whether a record changed."""
        name, version = key_of(obj), version_of(obj)
        with self._lock:
            if version <= self._versions.get(name, -1):
                return False
            self._versions[name] = version
            known = self._records.get(name)
            record = self._read(obj, known)
            if record == known:
                return False
            self._records[name] = record
            return True

    def remove(self, name: str, version: int) -> bool:
        """Take in that an object was deleted, or seen to be gone, at that version; whether a record went."""
        with self._lock:
            return self._remove(name, version)

    def version(self, name: str) -> int:
        """The newest version that is known of an object, -1 when nothing is."""
        with self._lock:
            return self._versions.get(name, -1)

    def sync(self, pages: Iterable[Listing]) -> bool:
        """Take in a complete list, page by page: objects that are not in it and not newer than it are gone.

        An error between the pages leaves what was known of the others.
        """
        changed, there, version = False, set(), 0
        for page in pages:
            version = int(page.resource_version)
            for item in page.items:
                changed |= self.put(item)
                there.add(key_of(item))
        with self._lock:
            for name in [name for name in self._records if name not in there]:
                changed |= self._remove(name, version)
            # A version without a record keeps late events of a deleted object out. Those older than this list have
            # done so since the list before.
            for name in [name for name, seen in self._versions.items() if name not in self._records and seen < version]:
                del self._versions[name]
        return changed

    def _remove(self, name: str, version: int) -> bool:
        if version < self._versions.get(name, -1):
            return False
        self._versions[name] = version
        return self._records.pop(name, None) is not None

    def snapshot(self) -> dict[str, R]:
        """All records as they are now."""
        with self._lock:
            return dict(self._records)

    def both(self) -> tuple[dict[str, R], dict[str, int]]:
        """Records and their versions, of the same moment."""
        with self._lock:
            return dict(self._records), dict(self._versions)


class Store:
    """One table per kind that the controller watches. ``agents`` are the pods of the agents' DaemonSet."""

    def __init__(self) -> None:
        self.configs: Table[ConfigRecord] = Table(ConfigRecord.from_object)
        self.mignodes: Table[MIGNodeRecord] = Table(lambda obj, _: MIGNodeRecord.from_object(obj))
        self.nodes: Table[NodeRecord] = Table(lambda obj, _: NodeRecord.from_object(obj))
        self.agents: Table[AgentRecord] = Table(lambda obj, _: AgentRecord.from_object(obj))


def key_of(obj: Mapping[str, Any]) -> str:
    """The name under which an object is kept."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def version_of(obj: Mapping[str, Any]) -> int:
    """The object's resourceVersion as a number that grows with every write."""
    return int(obj["metadata"]["resourceVersion"])
