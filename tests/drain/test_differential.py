"""``kubectl drain`` and ours evict the same set and refuse for the same reasons, on a real API server.

There is no controller manager: nobody but the two removes pods, and budgets are what their status says.

By default a fixed part of the corpus is tried; ``make chaos`` tries all of it.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.drain.classify import MIRROR
from mig_manager.kube.drain.naming import Pod
from mig_manager.kube.drain.once import Progress, drain_once, judge
from mig_manager.kube.errors import BlockedError
from mig_manager.kube.kinds import DAEMON_SET, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.sim.controlplane.access import Access, wait_until
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from tests.chaos.counting import ALL, EVERY, Matrix, must
from tests.drain.mixes import DAEMON_SET as THERE
from tests.drain.mixes import NAMESPACES, Mix, mix

PART = 48
MIXES = max(PART, 240 // EVERY) if ALL else PART
SIDES = ("kubectl", "ours")
WORKERS = 6
LEFT_S = 1
"""``--skip-wait-for-delete-timeout``: kubectl passes over pods that should have been gone for longer than that."""

ALLOWED = {"open": 1000, "closed": 0, "shared": 1, "one": 1000, "two": 1000}
REASONS = {
    "DaemonSet-managed Pods": "DaemonSetPod",
    "daemonsets.apps": "DaemonSetPod",
    "Pods with local storage": "PodWithLocalData",
    "Pods that declare no controller": "BarePod",
}
"""What kubectl says, and the reason that ours has for it; a DaemonSet's pod is one, whether that is there or not."""


@pytest.fixture(scope="module")
def access(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """An API server with nobody else at work, four namespaces and in each a DaemonSet."""
    directory = tmp_path_factory.mktemp("programs")
    for name in ("etcd", "kube-apiserver"):
        (directory / name).symlink_to(programs.path(name))
    with ControlPlane(Programs(directory)) as plane:
        admin = KubernetesCluster.from_kubeconfig("test", plane.access.kubeconfig)
        labels = {"app": THERE}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        body = {"metadata": {"name": THERE}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        for namespace in [f"{side}-{name}" for side in SIDES for name in NAMESPACES]:
            created = plane.access.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            assert 201 == created[0]
            admin.create(DAEMON_SET, body, namespace)
        yield plane.access


@dataclass
class Side:
    """The pods of a mix on the node that one of the two drains; names are without the side."""

    cluster: KubernetesCluster
    side: str
    mix: Mix

    @property
    def node(self) -> str:
        """The Node."""
        return f"{self.mix.name}-{self.side}"

    def build(self) -> None:
        """Create Node, budgets and pods."""
        labels = {"mix": self.mix.name}
        self.cluster.create(NODE, {"metadata": {"name": self.node}, "spec": {"unschedulable": True}})
        for namespace, budget in sorted({(pod.namespace, pod.budget) for pod in self.mix.pods if pod.budget}):
            self._budget(namespace, budget, budget)
            if budget == "two":
                self._budget(namespace, "second", budget)
        for pod in self.mix.pods:
            namespace = f"{self.side}-{pod.namespace}"
            self.cluster.create(POD, pod.body(self.node, labels), namespace)
            self.cluster.patch(POD, pod.name, {"status": pod.status()}, namespace, subresource="status")
            if pod.leaving:
                self.cluster.delete(POD, pod.name, namespace)

    def _budget(self, namespace: str, name: str, value: str) -> None:
        selector = {"matchLabels": {"mix": self.mix.name, "budget": value}}
        body = {"metadata": {"name": f"{self.mix.name}-{name}"}, "spec": {"minAvailable": 1, "selector": selector}}
        made = self.cluster.create(POD_DISRUPTION_BUDGET, body, f"{self.side}-{namespace}")
        self._allow(made, ALLOWED[value])

    def _allow(self, budget: Pod, allowed: int) -> None:
        metadata = budget["metadata"]
        figures = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        status = {**figures, "observedGeneration": metadata["generation"], "disruptedPods": None}
        self.cluster.patch(
            POD_DISRUPTION_BUDGET,
            metadata["name"],
            {"status": status},
            metadata["namespace"],
            subresource="status",
        )

    def open_budgets(self) -> None:
        """Let everybody go: all budgets allow it, and nobody has two."""
        for namespace in NAMESPACES:
            for budget in self.cluster.list(POD_DISRUPTION_BUDGET, f"{self.side}-{namespace}").items:
                metadata = budget["metadata"]
                if metadata["name"] == f"{self.mix.name}-second":
                    self.cluster.delete(POD_DISRUPTION_BUDGET, metadata["name"], metadata["namespace"])
                elif metadata["name"].startswith(self.mix.name):
                    self._allow(budget, 1000)

    def pods(self) -> list[Pod]:
        """The pods that are there."""
        return list(self.cluster.list(POD, fields=f"spec.nodeName={self.node}").items)

    def there(self) -> set[str]:
        """Their names."""
        return names(self.pods())


@dataclass
class Outcome:
    """What a mix came to; ``problems`` are the differences."""

    mix: Mix
    refused: dict[str, str] = field(default_factory=dict)
    blocked: bool = False
    evicted: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def same(self, what: str, theirs: object, ours: object) -> None:
        """Note a difference."""
        if theirs != ours:
            self.problems.append(f"{self.mix.name} ({' '.join(self.mix.flags)}): {what}: kubectl {theirs}, ours {ours}")


def kubectl_drain(side: Side, kubeconfig: Path) -> dict[str, str]:
    """Run ``kubectl drain``; which pods it refuses, and why. One second for what a budget forbids."""
    flags = [f"--kubeconfig={kubeconfig}", *side.mix.flags, "--timeout=1s", f"--skip-wait-for-delete-timeout={LEFT_S}"]
    done = subprocess.run(
        [str(find_kubectl()), "drain", side.node, *flags], capture_output=True, text=True, check=False
    )
    found: dict[str, str] = {}
    for why, names in re.findall(r"cannot delete (.*?): ((?:[a-z0-9./-]+(?:, )?)+)", done.stderr):
        for name in re.findall(r"[a-z]+-[ab]/(mix-[0-9-]+)", names):
            found[name] = next(reason for words, reason in REASONS.items() if words in why)
    return found


def our_drain(side: Side, pods: Sequence[Pod]) -> Progress:
    """Rounds of ours until nothing more happens."""
    policy, going = side.mix.policy, list(pods)
    while True:
        progress = drain_once(side.cluster, going, policy, lambda _: None)
        if not progress.evicted or progress.reason:
            return progress
        still = side.there()
        going = [pod for pod in going if pod["metadata"]["name"] in still]


def kept_pods(side: Side, going: Sequence[Pod]) -> set[str]:
    """Whom a budget keeps, each asked by itself."""
    found = set()
    for pod in going:
        metadata = pod["metadata"]
        try:
            side.cluster.evict(metadata["namespace"], metadata["name"], metadata["uid"], dry_run=True)
        except BlockedError:
            found.add(metadata["name"])
    return found


def compare(cluster: KubernetesCluster, kubeconfig: Path, tried: Mix) -> Outcome:
    """Drain both nodes of a mix, and see whether the same came of it."""
    theirs, ours = (Side(cluster, side, tried) for side in SIDES)
    before = ours.pods()
    outcome = Outcome(tried)
    outcome.same("pods before", theirs.there(), names(before))
    _compare_refusals(outcome, ours, before)
    # Static pods: kubectl passes over them, to us they are in the way unless the whole node goes down.
    pods = [pod for pod in before if MIRROR not in (pod["metadata"].get("annotations") or {})]
    going = judge(cluster, pods, tried.policy).going
    kept = kept_pods(ours, going)
    outcome.same("refused", kubectl_drain(theirs, kubeconfig), outcome.refused)
    progress = our_drain(ours, pods)
    outcome.same("whether anybody is refused", bool(outcome.refused), progress.hopeless)
    outcome.blocked = progress.reason == "EvictionBlocked"
    if outcome.blocked:
        _compare_blocked(outcome, theirs, ours, names(going), kept)
        for side in (theirs, ours):
            side.open_budgets()
        outcome.same("refused later", kubectl_drain(theirs, kubeconfig), {})
        outcome.same("blocked later", "", our_drain(ours, pods).reason)
    # What has finished uses nothing, so that only kubectl removes it.
    finished = {pod.name for pod in tried.pods if pod.finished}
    outcome.same("left", theirs.there() - finished, ours.there() - finished)
    outcome.evicted = names(before) - ours.there()
    return outcome


def _compare_refusals(outcome: Outcome, ours: Side, before: Sequence[Pod]) -> None:
    """Note whom we refuse, and see that static pods are all that we refuse beyond kubectl."""
    tried = outcome.mix
    by_name = {pod.name: pod for pod in tried.pods}
    static = set()
    for pod in before:
        name = pod["metadata"]["name"]
        for _, verdict in judge(ours.cluster, [pod], tried.policy).refused:
            if verdict.reason == "MirrorPod":
                static.add(name)
            else:
                orphan = by_name[name].of_daemon_set and verdict.reason == "BarePod"
                outcome.refused[name] = "DaemonSetPod" if orphan else verdict.reason
    wanted = {p.name for p in tried.pods if p.mirror and not p.finished and not tried.policy.whole_node}
    outcome.same("static pods", wanted, static)


def _compare_blocked(outcome: Outcome, theirs: Side, ours: Side, going: set[str], kept: set[str]) -> None:
    """While a budget keeps somebody kubectl evicts all others, and ours nobody.

    Only where everybody could go by himself, and not all together, ours evicts as far as the budget goes.
    """
    sharing = {p.name: p.namespace for p in outcome.mix.pods if (p.budget, p.phase) == ("shared", "ready")}
    sharing = {name: namespace for name, namespace in sharing.items() if name in going}
    left, here = theirs.there() & going, ours.there() & going
    outcome.same("who is kept", left - sharing.keys(), kept)
    # Which of those that share a budget goes first is nobody's business.
    spared = Counter({namespace: count - 1 for namespace, count in Counter(sharing.values()).items()})
    outcome.same("who is kept by a shared budget", +Counter(sharing[name] for name in left & sharing.keys()), +spared)
    if kept:
        outcome.same("whom ours spares while one is kept", going, here)
    # Ours stops at the first refusal, so others may be there still.
    gone_too_far = spared - Counter(sharing[name] for name in here & sharing.keys())
    outcome.same("who went past a shared budget", Counter(), gone_too_far)


def names(pods: Sequence[Pod]) -> set[str]:
    """Their names."""
    return {pod["metadata"]["name"] for pod in pods}


def side_by_side(work: Callable[[Mix], object], mixes: Sequence[Mix]) -> list[object]:
    """Do something for all mixes, several at a time."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, mixes))


def test_kubectl_and_ours(access: Access, matrix: Matrix) -> None:
    """Over the whole corpus: the same pods refused for the same reasons, and in the end the same pods gone."""
    cluster = KubernetesCluster.from_kubeconfig("test", access.kubeconfig)
    mixes = [mix(number) for number in range(MIXES)]

    def build(one: Mix) -> None:
        for side in SIDES:
            Side(cluster, side, one).build()

    side_by_side(build, mixes)
    past = datetime.now(UTC) + timedelta(seconds=LEFT_S + 3)
    wait_until("pods that leave to be overdue", lambda: datetime.now(UTC) > past)
    outcomes = side_by_side(partial(compare, cluster, access.kubeconfig), mixes)
    found = [outcome for outcome in outcomes if isinstance(outcome, Outcome)]
    for outcome in found:
        matrix.scenario()
        with matrix.attempt(outcome.mix.name):
            must(not outcome.problems, "\n".join(outcome.problems))
    # A corpus in which nothing happens proves nothing.
    reasons = Counter(reason for outcome in found for reason in set(outcome.refused.values()))
    assert {"DaemonSetPod", "PodWithLocalData", "BarePod"} == set(reasons)
    assert MIXES // 10 < sum(outcome.blocked for outcome in found)
    assert MIXES // 4 < sum(bool(outcome.evicted) for outcome in found)
    cluster.close()
