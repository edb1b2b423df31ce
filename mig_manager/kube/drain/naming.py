"""How messages name several pods: those of one workload together, and what is true of many said once.

A node may have dozens of pods of one Job. Whoever reads why it waits wants to know which Job, and not all their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mig_manager.geometry.state import NAMED
from mig_manager.kube.drain.classify import Refuse, Wait, controller_of

Pod = Mapping[str, Any]


class Kept(NamedTuple):
    """A pod that does not leave when asked to, and why."""

    pod: Pod
    verdict: Refuse | Wait


def name_of(pod: Pod) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def named(who: Iterable[Pod | str]) -> str:
    """``3 pods of ReplicaSet ns/web, ns/bare and 2 more``: pods by their workloads, and others by the names given."""
    groups: dict[str, list[str]] = {}
    for one in who:
        name = one if isinstance(one, str) else name_of(one)
        owner = None if isinstance(one, str) else controller_of(one)
        of = name if owner is None else f"{owner['kind']} {name.partition('/')[0]}/{owner['name']}"
        groups.setdefault(of, []).append(name)
    told = [names[0] if len(names) == 1 else f"{len(names)} pods of {of}" for of, names in groups.items()]
    rest = sum(len(names) for names in list(groups.values())[NAMED:])
    return ", ".join(told[:NAMED]) + (f" and {rest} more" if rest else "")


def told(verdicts: Sequence[Kept]) -> str:
    """What keeps these pods: ``each of 3 pods of Job ns/train ...; ns/bare ...; and 2 more``.

    A verdict's message begins with the pod's name; what follows is the same for all who are kept by the same thing.
    """
    groups: dict[str, list[Pod]] = {}
    for pod, verdict in verdicts:
        groups.setdefault(verdict.message.removeprefix(name_of(pod)), []).append(pod)
    texts = [f"{'each of ' if len(pods) > 1 else ''}{named(pods)}{text}" for text, pods in groups.items()]
    rest = sum(len(pods) for pods in list(groups.values())[NAMED:])
    return "; ".join(texts[:NAMED]) + (f"; and {rest} more" if rest else "")
