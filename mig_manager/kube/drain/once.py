"""One round of asking pods to leave. The state is the cluster's: called again, it goes on from what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mig_manager.kube.drain.classify import Evict, Keep, classify
from mig_manager.kube.errors import BlockedError, ConflictError, NotFoundError
from mig_manager.kube.port import Cluster

BLOCKED_RETRY_S = 5.0
"""How long to leave a budget in peace that names no time itself; kubectl's pause."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one round found and did; all names are ``namespace/name``.

    ``evicted`` were asked to leave in this round, ``leaving`` are on their way. ``blocked`` says why nobody else was
    evicted: ``reason`` is CamelCase, empty while nothing is in the way. One with nothing in it says that all are gone.
    """

    evicted: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    reason: str = ""
    blocked: str = ""
    retry_after_s: float = BLOCKED_RETRY_S


def drain_once(cluster: Cluster, pods: Sequence[Mapping[str, Any]], grace_s: int | None = None) -> Progress:
    """Ask these pods to leave, by name and uid, unless one of them cannot.

    Every eviction is tried as a dry run first, and while one is refused nobody is evicted: a drain that cannot finish
    must not begin. Between the dry runs and the evictions a budget can close; then the rest waits for the next round.
    ClusterErrors other than the refusals of an eviction come out as they are.
    """
    verdicts = [(pod, classify(pod)) for pod in pods]
    leaving = [_name(pod) for pod, verdict in verdicts if isinstance(verdict, Evict) and verdict.leaving]
    for _, verdict in verdicts:
        if isinstance(verdict, Keep):
            return Progress((), tuple(leaving), verdict.reason, verdict.message)
    going = [pod for pod, verdict in verdicts if isinstance(verdict, Evict) and not verdict.leaving]
    evicted: list[str] = []
    try:
        still_there = [pod for pod in going if _evict(cluster, pod, grace_s, dry_run=True)]
        for pod in still_there:
            if _evict(cluster, pod, grace_s, dry_run=False):
                evicted.append(_name(pod))  # noqa: PERF401 - what was evicted before a refusal counts
    except BlockedError as error:
        wait = error.retry_after_s or BLOCKED_RETRY_S
        return Progress(tuple(evicted), tuple(leaving), "EvictionBlocked", str(error), wait)
    return Progress(tuple(evicted), tuple(leaving))


def _evict(cluster: Cluster, pod: Mapping[str, Any], grace_s: int | None, *, dry_run: bool) -> bool:
    """Evict exactly this pod; whether it was still there."""
    metadata = pod["metadata"]
    try:
        cluster.evict(metadata["namespace"], metadata["name"], metadata["uid"], dry_run=dry_run, grace_s=grace_s)
    except (NotFoundError, ConflictError):  # gone, or another pod has the name by now
        return False
    return True


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
