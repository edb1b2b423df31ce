"""What PodDisruptionBudgets allow, as the disruption controller and the eviction subresource of Kubernetes decide it.

Sources: ``pkg/controller/disruption/disruption.go`` and ``pkg/registry/core/pod/storage/eviction.go``,
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mig_manager.kube.conditions import is_true
from mig_manager.kube.memory.selectors import selector_matches

EXEMPT_PHASES = frozenset({"Succeeded", "Failed", "Pending"})
"""Pods that do not run yet or any more are evicted whatever the budget says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an eviction may go ahead; otherwise the HTTP status and the words of the refusal."""

    allowed: bool
    code: int = 201
    text: str = ""


ALLOWED = Verdict(allowed=True)


@dataclass(frozen=True, slots=True)
class Count:
    """The figures of a budget's status."""

    healthy: int
    desired: int
    expected: int

    @property
    def allowed(self) -> int:
        """How many healthy pods may go now."""
        return max(0, self.healthy - self.desired) if self.expected else 0


def judge(
    pod: Mapping[str, Any],
    budgets: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    expected: Mapping[str, int],
) -> Verdict:
    """Whether this pod may be evicted now, given all budgets and pods of its namespace.

    ``expected`` holds the number of replicas behind a budget, by its name, where a workload with a scale would say it;
    for other budgets it is the number of pods that match.
    """
    if pod.get("status", {}).get("phase") in EXEMPT_PHASES or "deletionTimestamp" in pod["metadata"]:
        return ALLOWED
    labels = pod["metadata"].get("labels") or {}
    mine = [budget for budget in budgets if selector_matches(budget["spec"].get("selector"), labels)]
    if not mine:
        return ALLOWED
    if len(mine) > 1:
        return Verdict(
            allowed=False,
            code=500,
            text="This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    budget = mine[0]
    name = budget["metadata"]["name"]
    count = count_for(budget, pods, expected.get(name))
    if not is_true(pod, "Ready"):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or (count.healthy >= count.desired > 0):
            return ALLOWED
    if count.allowed > 0:
        return ALLOWED
    text = f"The disruption budget {name} needs {count.desired} healthy pods and has {count.healthy} currently"
    return Verdict(allowed=False, code=429, text=text)


def count_for(budget: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], expected: int | None) -> Count:
    """The figures of one budget."""
    selector = budget["spec"].get("selector")
    matching = [pod for pod in pods if selector_matches(selector, pod["metadata"].get("labels") or {})]
    healthy = sum(is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"] for pod in matching)
    base = len(matching) if expected is None else expected
    minimum, maximum = budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable")
    desired = scaled(minimum, base) if maximum is None else max(0, base - scaled(maximum, base))
    return Count(healthy, desired, base)


def scaled(value: int | str | None, base: int) -> int:
    """An integer as it is, a percentage of ``base`` rounded up, as the disruption controller rounds both fields."""
    if isinstance(value, str):
        return -(-int(value.removesuffix("%")) * base // 100)
    return value or 0
