"""The GPU clients of a simulated node: how they are deployed, and what runs in their containers.

The DaemonSet looks as NVIDIA's GPU operator makes it (assets/state-device-plugin of gpu-operator): its name, labels,
container name, gate label and toleration are what an agent finds on a real cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mig_manager.kube.port import Object
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.node.plugin import DevicePlugin
from mig_manager.sim.node.plugin_devices import Strategy
from mig_manager.sim.node.pod_spec import Container
from mig_manager.sim.node.pod_worker import Programs

OPERATOR_NAMESPACE = "gpu-operator"
PLUGIN_DAEMON_SET = "nvidia-device-plugin-daemonset"
PLUGIN_GATE = "nvidia.com/gpu.deploy.device-plugin"
STRATEGY_LABEL = "nvidia.com/mig.strategy"

# The operator's container, and that of the Helm chart and the static manifest.
_PLUGIN_CONTAINERS = ("nvidia-device-plugin", "nvidia-device-plugin-ctr")
_STRATEGY_VARIABLE = "MIG_STRATEGY"


def device_plugin_daemon_set(
    strategy: Strategy, namespace: str = OPERATOR_NAMESPACE, only: Mapping[str, str] | None = None
) -> Object:
    """The device plugin's DaemonSet; what its pods run is the simulated plugin.

    ``only`` are labels that its nodes must have besides the gate: two plugins on one node fight for its sockets.
    """
    labels = {"app": PLUGIN_DAEMON_SET}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": PLUGIN_DAEMON_SET, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {PLUGIN_GATE: "true", **(only or {})},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": _PLUGIN_CONTAINERS[0],
                            "image": "simulated/k8s-device-plugin",
                            "env": [{"name": _STRATEGY_VARIABLE, "value": str(strategy)}],
                        }
                    ],
                },
            },
        },
    }


def node_labels(strategy: Strategy) -> dict[str, str]:
    """The labels that GPU operator and GPU feature discovery give a node, as far as anybody here reads them."""
    labels = {"nvidia.com/gpu.present": "true", PLUGIN_GATE: "true"}
    # Feature discovery writes no strategy label under none.
    return labels if strategy is Strategy.NONE else {**labels, STRATEGY_LABEL: str(strategy)}


def programs(machine: Machine, device_plugins: Path, clock: Callable[[], float]) -> Programs:
    """What containers run on the node with that machine: the plugin's container the plugin, any other nothing."""

    def program(_: Object, container: Container) -> DevicePlugin | None:
        if container["name"] not in _PLUGIN_CONTAINERS:
            return None
        values = {e["name"]: e.get("value", "") for e in container.get("env", ())}
        strategy = Strategy(values.get(_STRATEGY_VARIABLE) or Strategy.NONE)
        return DevicePlugin(machine, device_plugins, strategy, clock)

    return program
