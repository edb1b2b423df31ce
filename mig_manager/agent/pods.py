"""Pods of the node as the agent looks at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from mig_manager.kube.conditions import is_true
from mig_manager.kube.drain.classify import FINISHED, MIRROR, is_mirror
from mig_manager.kube.quantity import how_many

GPU_RESOURCES = "nvidia.com/"
"""How the names of resources begin that may be GPUs: a plugin can be told names of one's own. Network cards of the same
maker have such names, too; ``devices.is_gpu_resource`` says of which nobody doubts it."""

SHARED = ".shared"
"""What the device plugin appends to the name of a time-sliced resource that it renames."""


@dataclass(frozen=True)
class Pod:
    """One pod of the API, with what the agent wants to know of it."""

    body: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.body["metadata"]["uid"])

    @property
    def process_uids(self) -> frozenset[str]:
        """The uids by which control groups name it: its own, or of a static pod that of its manifest."""
        annotations = self.body["metadata"].get("annotations") or {}
        return frozenset({self.uid, annotations.get(MIRROR, self.uid)})

    @property
    def static(self) -> bool:
        """Whether it is the API's image of a static pod: deleting that ends nothing."""
        return is_mirror(self.body)

    @property
    def owners(self) -> tuple[str, ...]:
        """The names of what owns it."""
        return tuple(str(owner["name"]) for owner in self.body["metadata"].get("ownerReferences") or ())

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.body["metadata"].get("labels") or {}

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in self.body["metadata"]

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.body.get("status", {}).get("phase") in FINISHED

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is true."""
        return is_true(self.body, "Ready")

    @cached_property
    def started(self) -> datetime | None:
        """When it, or the last of its containers that run, was started, in whole seconds; ``None`` while none runs."""
        statuses = self.body.get("status", {}).get("containerStatuses") or ()
        running = [s["state"]["running"].get("startedAt") for s in statuses if "running" in (s.get("state") or {})]
        return max((datetime.fromisoformat(time) for time in running if time), default=None)

    @property
    def initialised(self) -> bool:
        """Whether its ordinary init containers have ended; the kubelet takes that back where it runs them again."""
        return is_true(self.body, "Initialized")

    @cached_property
    def wants(self) -> Mapping[str, int]:
        """How many devices of what may be GPU resources its containers hold together, at most, from now on.

        As Kubernetes reckons a pod's requests: ordinary init containers run one after another, beside the sidecars
        (``restartPolicy: Always``) that come before them, and what they had is taken first by the containers after
        them. Those that have ended use nothing, though the kubelet keeps their devices for as long as the pod lives.
        """
        lasting: Counter[str] = Counter()
        at_most: Counter[str] = Counter()
        spec = self.body.get("spec", {})
        for container in spec.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                lasting += _asked(container)
            elif not self.initialised:
                at_most |= lasting + _asked(container)
        for container in spec.get("containers") or ():
            lasting += _asked(container)
        return at_most | lasting

    def containers(self) -> Iterator[Mapping[str, Any]]:
        """All its containers."""
        spec = self.body.get("spec", {})
        yield from spec.get("initContainers") or ()
        yield from spec.get("containers") or ()


def _asked(container: Mapping[str, Any]) -> Counter[str]:
    """What one container asks for; of a GPU, request and limit are the same."""
    found: Counter[str] = Counter()
    for amounts in (container.get("resources") or {}).values():
        # Beside limits and requests there is a list of claims.
        for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            if name.startswith(GPU_RESOURCES):
                plain = name.removesuffix(SHARED)
                found[plain] = max(found[plain], how_many(amount))
    return +found
