"""Which strategy the device plugin of this node uses, where the MIGConfig says ``Auto``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mig_manager.agent.clients import GpuClient, plugin_pods
from mig_manager.agent.names import STRATEGY_LABEL
from mig_manager.agent.pods import Pod
from mig_manager.api.migconfig import Strategy as WantedStrategy
from mig_manager.planner.strategy import Strategy

_VARIABLE = "MIG_STRATEGY"
_FLAG = "--mig-strategy"
_WORDS = {"mixed": Strategy.MIXED, "single": Strategy.SINGLE}


def strategy_for(
    wanted: WantedStrategy, node: Mapping[str, Any], clients: Sequence[GpuClient], pods: Sequence[Pod]
) -> Strategy:
    """The strategy to plan with: what was said, what the plugin's pod shows, what the node's label says, else mixed."""
    if wanted != "Auto":
        return Strategy(wanted)
    for pod in plugin_pods(clients, pods):
        found = _WORDS.get(_setting(pod))
        if found is not None:
            return found
    label = (node["metadata"].get("labels") or {}).get(STRATEGY_LABEL, "")
    return _WORDS.get(label, Strategy.MIXED)


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
