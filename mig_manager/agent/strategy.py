"""Which strategy the device plugin of this node uses, where the MIGConfig says ``Auto``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mig_manager.agent.clients import GpuClient, Pause, plugin_pods
from mig_manager.agent.names import STRATEGY_LABEL
from mig_manager.agent.pods import Pod
from mig_manager.api.migconfig import Strategy as WantedStrategy
from mig_manager.planner.strategy import Strategy

_VARIABLE = "MIG_STRATEGY"
_FLAG = "--mig-strategy"
_WORDS = {"mixed": Strategy.MIXED, "single": Strategy.SINGLE}


def strategy_for(
    wanted: WantedStrategy,
    node: Mapping[str, Any],
    clients: Sequence[GpuClient],
    pods: Sequence[Pod],
    last: Strategy | None = None,
) -> Strategy:
    """The strategy to plan with.

    That is what was said, what the plugin's pod shows, what was noted when it was sent away, what its pod showed
    ``last``, what the node's label says, else mixed.
    """
    if wanted != "Auto":
        return Strategy(wanted)
    pause = Pause.of(node)
    label = (node["metadata"].get("labels") or {}).get(STRATEGY_LABEL, "")
    noted = pause.strategy if pause is not None else None
    return shown_strategy(plugin_pods(clients, pods)) or noted or last or _WORDS.get(label, Strategy.MIXED)


def shown_strategy(plugins: Sequence[Pod]) -> Strategy | None:
    """What the device plugin's pods show of it."""
    return next((_WORDS[word] for word in map(_setting, plugins) if word in _WORDS), None)


def _setting(pod: Pod) -> str:
    """What the plugin's containers are told, by variable or flag; empty when that is not visible."""
    for container in pod.containers():
        for variable in container.get("env") or ():
            if variable["name"] == _VARIABLE and "value" in variable:
                return str(variable["value"])
        for argument in [*(container.get("command") or ()), *(container.get("args") or ())]:
            if str(argument).startswith(f"{_FLAG}="):
                return str(argument).partition("=")[2]
    return ""
