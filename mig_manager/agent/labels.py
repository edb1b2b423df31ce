"""The labels that say what a node exposes: own prefix, and only what is true.

``migmanager.io/mig-<profile>=<count>`` per resource under strategy Mixed (``+`` written as ``.``), and
``migmanager.io/gpu=<count>`` with the slice in ``…/applied-slice`` under Single. What the kubelet does not list is not
exposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mig_manager.agent.devices import Device
from mig_manager.agent.names import (
    APPLIED_PROFILE,
    APPLIED_SLICE,
    CONFIG,
    GPU_MODEL,
    MIG_CAPABLE,
    SINGLE_COUNT,
    SLICE_PREFIX,
    STATE,
)
from mig_manager.geometry.state import Card
from mig_manager.planner.strategy import Strategy

_LIMIT = 63
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]+")
_PROMISES = (APPLIED_PROFILE, APPLIED_SLICE, SINGLE_COUNT)


def card_labels(cards: Sequence[Card]) -> dict[str, str]:
    """What is true of the cards whatever their layout."""
    found = {MIG_CAPABLE: "true" if any(card.mig_capable for card in cards) else "false"}
    models = {card.model for card in cards}
    if models:
        found[GPU_MODEL] = label_value(models.pop() if len(models) == 1 else "mixed")
    return found


def slice_labels(devices: Iterable[Device], strategy: Strategy) -> dict[str, str]:
    """How many slices of each kind the devices are; cards without MIG are not counted."""
    slices = [d for d in devices if d.name is not None]
    if strategy is Strategy.SINGLE:
        names = {str(d.name) for d in slices}
        if len(names) != 1:
            return {}
        return {SINGLE_COUNT: str(len(slices)), APPLIED_SLICE: label_value(names.pop())}
    found: dict[str, int] = {}
    for device in slices:
        # Without a plugin (strategy None) a slice is called as mixed would call it.
        key = label_value(str(device.name).replace("+", "."))
        found[key] = found.get(key, 0) + 1
    return {f"{SLICE_PREFIX}{name}": str(count) for name, count in found.items()}


def promises(labels: Mapping[str, str]) -> dict[str, str]:
    """Those of a node's labels by which it promises slices."""
    return {key: value for key, value in labels.items() if key in _PROMISES or key.startswith(SLICE_PREFIX)}


def owned(labels: Mapping[str, str]) -> dict[str, str]:
    """Those of a node's labels that the agent writes."""
    fixed = (STATE, CONFIG, GPU_MODEL, MIG_CAPABLE)
    return {key: value for key, value in labels.items() if key in fixed} | promises(labels)


def change(labels: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What a merge patch must say so that of our labels exactly the wanted ones are there."""
    gone: dict[str, str | None] = {key: None for key in owned(labels) if key not in wanted}
    return gone | {key: value for key, value in wanted.items() if labels.get(key) != value}


def label_value(text: str) -> str:
    """The text as a label value: only characters that Kubernetes allows, at most 63."""
    return _FORBIDDEN.sub("-", text)[:_LIMIT].strip("._-")
