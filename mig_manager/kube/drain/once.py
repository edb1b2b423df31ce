"""One round of asking pods to leave. The state is the cluster's: called again, it goes on from what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mig_manager.kube.drain.classify import Evict, Policy, Refuse, Wait, asks_daemon_set, classify, controller_of
from mig_manager.kube.drain.naming import Kept, Pod, name_of, told
from mig_manager.kube.errors import BlockedError, ConflictError, NamespaceTerminatingError, NotFoundError
from mig_manager.kube.kinds import DAEMON_SET
from mig_manager.kube.port import Cluster

BLOCKED_RETRY_S = 5.0
"""How long to leave a budget in peace that names no time itself; kubectl's pause."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of several pods: whom to ask, who leaves already, who is waited for, and who keeps everybody."""

    going: tuple[Pod, ...] = ()
    leaving: tuple[Pod, ...] = ()
    waiting: tuple[Kept, ...] = ()
    refused: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """What one round found and did; all names are ``namespace/name``.

    ``evicted`` were asked to leave in this round, ``leaving`` are on their way. ``blocked`` says why nobody else was
    evicted: ``reason`` is CamelCase, empty while nothing is in the way, and ``hopeless`` says that waiting does not
    help. One with nothing in it says that all are gone.
    """

    evicted: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    reason: str = ""
    blocked: str = ""
    retry_after_s: float = BLOCKED_RETRY_S
    hopeless: bool = False


def judge(cluster: Cluster, pods: Sequence[Pod], policy: Policy) -> Judgement:
    """Classify pods. DaemonSets are asked for only where a verdict depends on it; ClusterError."""
    verdicts = [(pod, classify(pod, policy, daemon_set_gone=_daemon_set_gone(cluster, pod, policy))) for pod in pods]
    return Judgement(
        going=tuple(pod for pod, v in verdicts if isinstance(v, Evict) and not v.leaving),
        leaving=tuple(pod for pod, v in verdicts if isinstance(v, Evict) and v.leaving),
        waiting=tuple(Kept(pod, v) for pod, v in verdicts if isinstance(v, Wait)),
        refused=tuple(Kept(pod, v) for pod, v in verdicts if isinstance(v, Refuse)),
    )


def drain_once(
    cluster: Cluster, pods: Sequence[Pod], policy: Policy, announce: Callable[[Sequence[Pod]], None]
) -> Progress:
    """Ask these pods to leave, by name and uid, unless one of them cannot.

    Every eviction is tried as a dry run first, and while one is refused, or somebody is waited for, nobody is evicted:
    a drain that cannot finish must not begin. Between the dry runs and the evictions a budget can close; then the rest
    waits for the next round. ``announce`` is told who is about to be asked, before anybody is.

    ClusterErrors other than the refusals of an eviction come out as they are.
    """
    found = judge(cluster, pods, policy)
    leaving, evicted = [name_of(pod) for pod in found.leaving], list[str]()

    def progress(reason: str = "", blocked: str = "", wait_s: float = 0.0) -> Progress:
        hopeless = bool(found.refused)
        return Progress(tuple(evicted), tuple(leaving), reason, blocked, wait_s or BLOCKED_RETRY_S, hopeless)

    for speaking in (found.refused, found.waiting):
        if speaking:
            return progress(speaking[0].verdict.reason, told(speaking))
    if found.going:
        announce(found.going)
    try:
        still_there = [pod for pod in found.going if _evict(cluster, pod, policy, leaving, dry_run=True)]
        for pod in still_there:
            if _evict(cluster, pod, policy, leaving, dry_run=False):
                evicted.append(name_of(pod))
    except BlockedError as error:
        return progress("EvictionBlocked", str(error), error.retry_after_s)
    return progress()


def _daemon_set_gone(cluster: Cluster, pod: Pod, policy: Policy) -> bool:
    """Whether a DaemonSet's pod is an orphan, as far as that matters."""
    controller = controller_of(pod)
    if controller is None or not asks_daemon_set(pod, policy):
        return False
    try:
        cluster.get(DAEMON_SET, controller["name"], pod["metadata"]["namespace"])
    except NotFoundError:
        return True
    return False


def _evict(cluster: Cluster, pod: Pod, policy: Policy, leaving: list[str], *, dry_run: bool) -> bool:
    """Evict exactly this pod; whether it was still there. In a namespace that is going it leaves with that."""
    metadata, grace_s = pod["metadata"], policy.terms.grace_period_s
    try:
        cluster.evict(metadata["namespace"], metadata["name"], metadata["uid"], dry_run=dry_run, grace_s=grace_s)
    except (NotFoundError, ConflictError):  # gone, or another pod has the name by now
        return False
    except NamespaceTerminatingError:
        leaving.append(name_of(pod))
        return False
    return True
