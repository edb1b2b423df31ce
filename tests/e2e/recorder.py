"""Every event of Nodes, MIGNodes and pods, in the order in which they happened.

Resource versions of one etcd are one counter, so the events of all kinds together, sorted by them, are exactly the
sequence of states that the cluster went through.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, Self

from mig_manager.kube.kinds import MIG_NODE, NODE, POD, Kind
from mig_manager.sim.controlplane.access import Access
from tests.e2e.waiting import until

KINDS = (NODE, MIG_NODE, POD)


@dataclass(frozen=True)
class Event:
    """What happened to an object; ``body`` is the object afterwards, or as it was last when it was deleted.

    ``at`` is when it was seen, on the monotonic clock in seconds.
    """

    version: int
    kind: Kind
    deleted: bool
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.body["metadata"]["uid"])


class Recorder:
    """Watches for as long as the control plane runs; one thread and one connection per kind."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._watches = [_Watch(access, kind) for kind in KINDS]

    def __enter__(self) -> Self:
        for watch in self._watches:
            watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        for watch in self._watches:
            watch.stop()

    def history(self) -> list[Event]:
        """Everything until now, complete and in order."""
        for watch in self._watches:
            watch.catch_up()
        return sorted((e for watch in self._watches for e in tuple(watch.events)), key=lambda e: e.version)


class _Watch:
    def __init__(self, access: Access, kind: Kind) -> None:
        self.events: list[Event] = []
        self._access = access
        self._kind = kind
        self._connection: HTTPSConnection | None = None
        self._failure: Exception | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"watch {kind.plural}", daemon=True)

    def start(self) -> None:
        listing = self._list()
        assert [] == listing["items"], f"there are {self._kind.plural} already"
        # The administrator's TLS context, which the request above has made.
        context = self._access._context
        host = self._access.server.removeprefix("https://")
        self._connection = HTTPSConnection(host, context=context, timeout=None)
        version = listing["metadata"]["resourceVersion"]
        query = f"watch=1&resourceVersion={version}&timeoutSeconds=86400"
        self._connection.request("GET", f"{self._kind.path()}?{query}")
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        if self._connection is not None:
            self._connection.close()
        if self._failure is not None:
            raise self._failure

    def catch_up(self) -> None:
        """Wait until everything that is there now, or gone by now, has been seen."""
        wanted = {_key(item): int(item["metadata"]["resourceVersion"]) for item in self._list()["items"]}

        def seen() -> bool:
            assert self._failure is None, f"the watch of {self._kind.plural} ended: {self._failure}"
            last = _last(tuple(self.events))
            for key, version in wanted.items():
                if key not in last or last[key].version < version:
                    return False
            return all(event.deleted or key in wanted for key, event in last.items())

        until(f"the watch of {self._kind.plural} to catch up", seen)

    def _list(self) -> dict[str, Any]:
        status, answer = self._access.request("GET", self._kind.path())
        assert 200 == status, answer
        assert isinstance(answer, dict)
        return answer

    def _run(self) -> None:
        assert self._connection is not None
        try:
            response = self._connection.getresponse()
            assert 200 == response.status, response.read()
            for line in _lines(response):
                raw = json.loads(line)
                assert raw["type"] in ("ADDED", "MODIFIED", "DELETED"), raw
                body = raw["object"]
                version = int(body["metadata"]["resourceVersion"])
                self.events.append(Event(version, self._kind, raw["type"] == "DELETED", body))
            self._failure = ConnectionError("the server closed it")
        except Exception as error:  # noqa: BLE001 - told by catch_up() and stop()
            self._failure = error
        if self._stopping:
            self._failure = None


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    with response:
        while line := response.readline():
            yield line


def _key(body: dict[str, Any]) -> str:
    return str(body["metadata"]["uid"])


def _last(events: Iterable[Event]) -> dict[str, Event]:
    return {event.uid: event for event in events}
