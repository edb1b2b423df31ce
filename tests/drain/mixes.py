"""Generated mixes of pods on a node, the same for the same number, and the terms on which the node is drained."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from mig_manager.api.migconfig import Drain
from mig_manager.kube.drain.classify import DO_NOT_DISRUPT, MIRROR, Policy

DAEMON_SET, DAEMON_SET_GONE = "there", "gone"
"""Names of the DaemonSet that exists and of one that does not."""

OWNERS = ("", "ReplicaSet", "ReplicaSet", "StatefulSet", "Job", "Custom", "no-controller", DAEMON_SET, DAEMON_SET_GONE)
PHASES = ("ready", "ready", "ready", "unready", "Pending", "Succeeded", "Failed")
BUDGETS = ("", "", "", "open", "closed", "shared", "shared", "one", "two")
"""The value of the label ``budget``: a budget that is open, closed, lets one go, and two that share their pods."""

NAMESPACES = ("a", "b")


@dataclass(frozen=True)
class MixedPod:
    """One pod of a mix."""

    name: str
    namespace: str
    owner: str
    phase: str
    budget: str = ""
    empty_dir: bool = False
    mirror: bool = False
    leaving: bool = False
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def of_daemon_set(self) -> bool:
        """Whether a DaemonSet controls it, gone or not."""
        return self.owner in (DAEMON_SET, DAEMON_SET_GONE)

    def body(self, node: str, labels: dict[str, str]) -> dict[str, Any]:
        """The pod as it is created. Without grace it goes when it is evicted: no kubelet sees it out."""
        annotations = {**self.annotations, **({MIRROR: "x"} if self.mirror else {})}
        volumes = [{"name": "v", "emptyDir": {}}] if self.empty_dir else []
        return {
            "metadata": {
                "name": self.name,
                "labels": {**labels, "budget": self.budget},
                "annotations": annotations,
                "ownerReferences": self._owners(),
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "image": "none"}],
                "volumes": volumes,
                "terminationGracePeriodSeconds": 1 if self.leaving else 0,
            },
        }

    def status(self) -> dict[str, Any]:
        """The pod's status as a kubelet would report it."""
        if self.phase not in ("ready", "unready"):
            return {"phase": self.phase}
        ready = {"type": "Ready", "status": "True" if self.phase == "ready" else "False"}
        return {"phase": "Running", "conditions": [ready]}

    def _owners(self) -> list[dict[str, object]]:
        if not self.owner:
            return []
        kind = "DaemonSet" if self.of_daemon_set else "ReplicaSet" if self.owner == "no-controller" else self.owner
        version = {"Job": "batch/v1", "Custom": "example.com/v1"}.get(kind, "apps/v1")
        controller = {"controller": True} if self.owner != "no-controller" else {}
        return [{"apiVersion": version, "kind": kind, "name": self.owner.lower(), "uid": self.name, **controller}]


@dataclass(frozen=True)
class Mix:
    """Pods of one node, and how it is drained."""

    number: int
    pods: tuple[MixedPod, ...]
    policy: Policy

    @property
    def name(self) -> str:
        """The node's name, and the value of the label ``mix`` of its pods."""
        return f"mix-{self.number:03d}"

    @property
    def flags(self) -> list[str]:
        """What ``kubectl drain`` is told for the same."""
        terms = self.policy.terms
        wanted = {
            "--force": terms.force,
            "--delete-emptydir-data": terms.delete_empty_dir_data,
            "--ignore-daemonsets": self.policy.whole_node,
        }
        return [flag for flag, on in wanted.items() if on]


def mix(number: int) -> Mix:
    """The mix of that number."""
    random = Random(number)  # noqa: S311 - a corpus, not a secret
    # Half of them are kept free of what is refused, or hardly a mix would get as far as an eviction.
    tame = number % 2 == 0
    pods = tuple(_pod(random, f"mix-{number:03d}-{n}", tame=tame) for n in range(random.randint(1, 6)))
    terms = Drain(jobs="Evict", force=random.random() < 0.5, delete_empty_dir_data=tame or random.random() < 0.5)
    return Mix(number, pods, Policy(terms, whole_node=random.random() < 0.5))


def _pod(random: Random, name: str, *, tame: bool) -> MixedPod:
    owner, phase = random.choice(OWNERS), random.choice(PHASES)
    mirror = random.randrange(12) == 0
    if mirror:
        owner = "Node"
    elif tame and owner in ("", "no-controller", DAEMON_SET, DAEMON_SET_GONE):
        owner = "ReplicaSet"
    return MixedPod(
        name=name,
        namespace=random.choice(NAMESPACES),
        owner=owner,
        phase=phase,
        budget=random.choice(BUDGETS),
        empty_dir=random.randrange(4) == 0,
        mirror=mirror,
        leaving=random.randrange(8) == 0 and phase not in ("Succeeded", "Failed"),
        annotations=dict([random.choice(list(DO_NOT_DISRUPT.items()))]) if random.randrange(6) == 0 else {},
    )
