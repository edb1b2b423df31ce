"""The GPU clients of a simulated node: how they are deployed, and what runs in their containers.

The DaemonSets look as NVIDIA's GPU operator makes them (assets/state-device-plugin and state-dcgm-exporter of
gpu-operator): names, labels, container names, gate labels and toleration are what an agent finds on a real cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mig_manager.kube.port import Object
from mig_manager.sim.node.exporter import Exporter
from mig_manager.sim.node.plugin import DevicePlugin
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.pod_spec import Container
from mig_manager.sim.node.pod_worker import Programs
from mig_manager.sim.node.processes import Processes
from mig_manager.sim.node.program import Program, ProgramCrash

OPERATOR_NAMESPACE = "gpu-operator"
PLUGIN_DAEMON_SET = "nvidia-device-plugin-daemonset"
PLUGIN_GATE = "nvidia.com/gpu.deploy.device-plugin"
EXPORTER_DAEMON_SET = "nvidia-dcgm-exporter"
EXPORTER_GATE = "nvidia.com/gpu.deploy.dcgm-exporter"
STRATEGY_LABEL = "nvidia.com/mig.strategy"

# The operator's container, and that of the Helm chart and the static manifest.
_PLUGIN_CONTAINERS = ("nvidia-device-plugin", "nvidia-device-plugin-ctr")
_EXPORTER_CONTAINER = "nvidia-dcgm-exporter"
_STRATEGY_VARIABLE = "MIG_STRATEGY"


def device_plugin_daemon_set(
    strategy: Strategy, namespace: str = OPERATOR_NAMESPACE, only: Mapping[str, str] | None = None
) -> Object:
    """The device plugin's DaemonSet; what its pods run is the simulated plugin.

    ``only`` are labels that its nodes must have besides the gate: two plugins on one node fight for its sockets.
    """
    container = {
        "name": _PLUGIN_CONTAINERS[0],
        "image": "simulated/k8s-device-plugin",
        "env": [{"name": _STRATEGY_VARIABLE, "value": str(strategy)}],
    }
    return _daemon_set(PLUGIN_DAEMON_SET, namespace, {PLUGIN_GATE: "true", **(only or {})}, container)


def exporter_daemon_set(namespace: str = OPERATOR_NAMESPACE, only: Mapping[str, str] | None = None) -> Object:
    """The DCGM exporter's DaemonSet, on nodes that have its gate and the labels ``only``."""
    container = {"name": _EXPORTER_CONTAINER, "image": "simulated/dcgm-exporter"}
    return _daemon_set(EXPORTER_DAEMON_SET, namespace, {EXPORTER_GATE: "true", **(only or {})}, container)


def node_labels(strategy: Strategy) -> dict[str, str]:
    """The labels that GPU operator and GPU feature discovery give a node, as far as anybody here reads them."""
    labels = {"nvidia.com/gpu.present": "true", PLUGIN_GATE: "true", EXPORTER_GATE: "true"}
    # Feature discovery writes no strategy label under none.
    return labels if strategy is Strategy.NONE else {**labels, STRATEGY_LABEL: str(strategy)}


def programs(processes: Processes, device_plugins: Path, clock: Callable[[], float]) -> Programs:
    """What containers run on a node: the clients' containers the clients, any other nothing."""

    def program(_: Object, container: Container) -> Program | None:
        if container["name"] == _EXPORTER_CONTAINER:
            return Exporter(processes)
        if container["name"] not in _PLUGIN_CONTAINERS:
            return None
        values = {e["name"]: e.get("value", "") for e in container.get("env", ())}
        wanted = values.get(_STRATEGY_VARIABLE) or Strategy.NONE
        if wanted not in set(Strategy):
            raise ProgramCrash(f"unknown MIG strategy: {wanted}")
        return DevicePlugin(processes.machine, device_plugins, Strategy(wanted), clock)

    return program


def _daemon_set(name: str, namespace: str, selector: Mapping[str, str], container: Mapping[str, Any]) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": dict(selector),
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [dict(container)],
                },
            },
        },
    }
