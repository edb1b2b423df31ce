"""What happens in each round: a choice that is random, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

WIDTHS: dict[str, Any] = {
    "halves": {
        "gpus": [
            {"match": {"models": ["A30"]}, "slices": [{"slice": "2g", "count": 2}]},
            {"slices": [{"slice": "3g", "count": 2}]},
        ]
    },
    "narrow": {
        "gpus": [
            {"match": {"models": ["A30"]}, "slices": [{"slice": "2g"}, {"slice": "1g", "count": 2}]},
            {"slices": [{"slice": "3g"}, {"slice": "1g", "count": 3}]},
        ]
    },
}
"""Layouts of the MIGConfig's own: between the two a large slice stays on every card."""

BALANCED = "all-balanced"
PROFILES = (BALANCED, "all-1g", "all-2g", *WIDTHS)
"""They exist on every card of the fleet."""

DISABLED = "all-disabled"
"""A change of MIG mode, for single nodes: for the whole pool nothing would be left to do but that."""


class Kind(StrEnum):
    """A kind of disturbance."""

    PROFILE = "edit profile"
    BUDGET = "edit maxUnavailable"
    PAUSE = "edit paused"
    DRAIN = "edit drain"
    LABEL = "label node"
    CREATE = "create pods"
    DELETE = "delete pod"
    EVICT = "evict pod"
    KILL_AGENT = "kill agent"
    KILL_CONTROLLER = "kill controller"
    REBOOT = "reboot"
    DRIFT = "destroy slice by hand"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    KUBELET = "restart kubelet"


WEIGHTS = {
    Kind.PROFILE: 4,
    Kind.BUDGET: 2,
    Kind.PAUSE: 1,
    Kind.DRAIN: 2,
    Kind.LABEL: 4,
    Kind.CREATE: 3,
    Kind.DELETE: 2,
    Kind.EVICT: 2,
    Kind.KILL_AGENT: 5,
    Kind.KILL_CONTROLLER: 2,
    Kind.REBOOT: 3,
    Kind.DRIFT: 3,
    Kind.CORDON: 2,
    Kind.UNCORDON: 3,
    Kind.KUBELET: 2,
}
MOST_AT_ONCE = 6
LONGEST_UNREST = 5
"""After so many rounds at the latest everything must come to rest."""


@dataclass(frozen=True)
class Disturbance:
    """One of them. ``value`` is what an edit sets; for pods and slices a number by which one that is there is taken."""

    kind: Kind
    node: str = ""
    value: Any = None

    def __str__(self) -> str:
        shown = "" if isinstance(self.value, int) and self.kind in _PICKED else _shown(self.value)
        return " ".join(part for part in (str(self.kind), self.node, shown) if part)


@dataclass(frozen=True)
class Round:
    """``rest``: all must come to rest after it."""

    number: int
    disturbances: tuple[Disturbance, ...]
    rest: bool


_PICKED = (Kind.CREATE, Kind.DELETE, Kind.EVICT, Kind.DRIFT)


class Chooser:
    """``lasting`` nodes are never rebooted, and their agents never killed, so that memory is seen over a long time.

    For the same reason the controller is killed in the first quarter of the rounds only.
    """

    def __init__(self, seed: int, nodes: Sequence[str], lasting: Collection[str], rounds: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self._nodes = list(nodes)
        self._mortal = [node for node in nodes if node not in lasting]
        self._rounds = rounds
        self._unrest = 0
        self._cordoned: list[str] = []

    def round(self, number: int) -> Round:
        """What happens in that round, counted from 1; call it for one after the other."""
        chosen = tuple(self._one(number) for _ in range(self._random.randint(1, MOST_AT_ONCE)))
        self._unrest += 1
        rest = self._unrest == LONGEST_UNREST or self._random.random() < 1 / LONGEST_UNREST
        if rest:
            self._unrest = 0
            self._cordoned.clear()
        return Round(number, chosen, rest)

    def _one(self, number: int) -> Disturbance:
        kinds = [kind for kind in WEIGHTS if self._possible(kind, number)]
        (kind,) = self._random.choices(kinds, [WEIGHTS[kind] for kind in kinds])
        return self._filled(kind)

    def _possible(self, kind: Kind, number: int) -> bool:
        if kind is Kind.KILL_CONTROLLER:
            return number <= self._rounds / 4
        if kind in (Kind.KILL_AGENT, Kind.REBOOT):
            return bool(self._mortal)
        if kind is Kind.CORDON:
            return len(self._cordoned) < len(self._nodes)
        return kind is not Kind.UNCORDON or bool(self._cordoned)

    def _filled(self, kind: Kind) -> Disturbance:
        return Disturbance(kind, self._node(kind), self._value(kind))

    def _node(self, kind: Kind) -> str:
        """The node that it happens to, for the kinds that happen to one."""
        if kind is Kind.CORDON:
            node = self._random.choice([node for node in self._nodes if node not in self._cordoned])
            self._cordoned.append(node)
            return node
        if kind is Kind.UNCORDON:
            return self._cordoned.pop(self._random.randrange(len(self._cordoned)))
        if kind in (Kind.KILL_AGENT, Kind.REBOOT):
            return self._random.choice(self._mortal)
        return self._random.choice(self._nodes) if kind in (Kind.LABEL, Kind.KUBELET, Kind.DRIFT) else ""

    def _value(self, kind: Kind) -> Any:  # noqa: ANN401 - whatever an edit sets
        pick = self._random.choice
        if kind in _PICKED:
            return self._random.randrange(1000)
        makers: dict[Kind, Callable[[], Any]] = {
            Kind.PROFILE: lambda: pick(PROFILES),
            Kind.LABEL: lambda: pick((*PROFILES, DISABLED, None)),
            Kind.BUDGET: lambda: self._random.randint(1, 4),
            Kind.PAUSE: lambda: pick((True, False, False)),
            Kind.DRAIN: self._drain,
        }
        return makers[kind]() if kind in makers else None

    def _drain(self) -> dict[str, Any]:
        pick = self._random.choice
        return {
            "jobs": pick(("WaitForCompletion", "Evict")),
            "onTimeout": pick(("Abort", "Abort", "Wait")),
            "timeoutSeconds": self._random.randint(5, 20),
            "gracePeriodSeconds": pick((None, 1)),
            "force": pick((True, True, False)),
        }


def _shown(value: Any) -> str:  # noqa: ANN401 - whatever an edit sets
    if isinstance(value, dict):
        return ",".join(f"{name}={item}" for name, item in value.items())
    return "" if value is None else str(value)
