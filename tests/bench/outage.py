"""Where the time of a reconfiguration goes, from what everybody can see of Node, MIGNode and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mig_manager.agent.names import PAUSED
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.sim.node.clients import OPERATOR_NAMESPACE, PLUGIN_DAEMON_SET
from tests.e2e.plane import WORK
from tests.e2e.recorder import Event

Interval = tuple[float, float]


@dataclass(frozen=True)
class Outage:
    """A reconfiguration from grant to Released. ``evicted`` are the pods that had to go.

    ``waits`` are while evicted pods end, clients leave, and clients come back.
    """

    start: float
    end: float
    waits: tuple[Interval, ...]
    evicted: int

    @property
    def total_s(self) -> float:
        """From the grant to Released, in seconds."""
        return self.end - self.start

    @property
    def waiting_s(self) -> float:
        """How much of it others took."""
        return covered(self.waits, self.start, self.end)

    def own_s(self, calls: Sequence[Interval]) -> float:
        """What is left when others, and these calls of the driver, take no time."""
        return self.total_s - covered([*self.waits, *calls], self.start, self.end)


def outage(history: Sequence[Event], node: str) -> Outage:
    """The last reconfiguration of a node. AssertionError when there was none that was carried out to its end."""
    grant = [e for e in history if e.kind == MIG_NODE and e.name == node][-1].body["spec"]["grant"]["id"]
    given = _first(history, lambda e: e.kind == MIG_NODE and e.name == node and _granted(e) == grant)
    events = [e for e in history if given.version <= e.version]
    end = _first(events, lambda e: e.kind == MIG_NODE and e.name == node and _released(e) == grant)
    events = [e for e in events if e.version <= end.version]
    pods = [e for e in events if e.kind == POD and e.body["spec"].get("nodeName") == node]
    work = [e for e in pods if e.body["metadata"]["namespace"] == WORK]
    evicted = {e.uid for e in work if "deletionTimestamp" in e.body["metadata"]}
    drained = [_between(work, uid) for uid in evicted]
    waits = [*drained, *_clients(events, pods, node)]
    return Outage(given.at, end.at, tuple(waits), len(evicted))


def _clients(events: Sequence[Event], pods: Sequence[Event], node: str) -> list[Interval]:
    """While GPU clients leave, and from when they may come back until the kubelet offers what the new plugin found."""
    nodes = [e for e in events if e.kind == NODE and e.name == node]
    paused = _first(nodes, _paused)
    resumed = _first((e for e in nodes if e.version > paused.version), lambda e: not _paused(e))
    clients = [e for e in pods if e.body["metadata"]["namespace"] == OPERATOR_NAMESPACE]
    gone = [e.at for e in clients if e.deleted and e.version < resumed.version]
    plugin = _first(clients, lambda e: e.version > resumed.version and _plugin_ready(e))
    final = nodes[-1].body["status"]["allocatable"]
    offered = _first(
        nodes, lambda e: e.version >= resumed.version and e.body["status"]["allocatable"] == final and not _paused(e)
    )
    return [(paused.at, max(gone)), (resumed.at, max(plugin.at, offered.at))]


def _between(pods: Sequence[Event], uid: str) -> Interval:
    """From the eviction of a pod until it is gone."""
    asked = _first(pods, lambda e: e.uid == uid and "deletionTimestamp" in e.body["metadata"])
    return asked.at, _first(pods, lambda e: e.uid == uid and e.deleted).at


def covered(intervals: Iterable[Interval], start: float, end: float) -> float:
    """How much time between ``start`` and ``end`` at least one of the intervals covers."""
    total, reached = 0.0, start
    for first, last in sorted(intervals):
        total += max(0.0, min(last, end) - max(first, reached))
        reached = max(reached, last)
    return total


def _first(events: Iterable[Event], true: Callable[[Event], bool]) -> Event:
    found = next((event for event in events if true(event)), None)
    assert found is not None, "the reconfiguration did not go its usual way"
    return found


def _granted(event: Event) -> int | None:
    found: int | None = event.body["spec"].get("grant", {}).get("id")
    return found


def _released(event: Event) -> int | None:
    grant = event.body.get("status", {}).get("grant", {})
    return int(grant["id"]) if (grant.get("state"), grant.get("result")) == ("Released", "Applied") else None


def _paused(event: Event) -> bool:
    return PAUSED in (event.body["metadata"].get("annotations") or {})


def _plugin_ready(event: Event) -> bool:
    conditions = event.body.get("status", {}).get("conditions", ())
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and event.name.startswith(PLUGIN_DAEMON_SET)
