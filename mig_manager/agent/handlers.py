"""kopf's part of the agent: one watch on the node's own MIGNode, and the shell of the process.

The only module here that imports kopf. A handler decides nothing: it rings the bell, and the worker reads for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kopf

from mig_manager.agent.mailbox import News
from mig_manager.agent.names import MANAGER
from mig_manager.agent.worker import Worker
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import MIG_NODE
from mig_manager.kube.kopf_shell import add_login, add_probe, make_informer, quieten

RESOURCE = (MIG_NODE.group, MIG_NODE.version, MIG_NODE.plural)


class Bell:
    """Tells the worker what is new: our own status patches come back as events too, and are not news."""

    def __init__(self, worker: Worker, node: str) -> None:
        self._worker = worker
        self._node = node
        self._last: News | None = None

    def receive(self, event: kopf.RawEvent) -> None:
        """Take one watch event in. The name is compared too: a server that ignores the selector must not mislead us."""
        mignode: Mapping[str, Any] = event["object"]
        if mignode["metadata"]["name"] != self._node:
            return
        news = News.of(mignode, deleted=event["type"] == "DELETED")
        if news != self._last:
            self._last = news
            self._worker.deliver(news)


def configure(settings: kopf.OperatorSettings, node: str) -> None:
    """Make kopf an informer of one object."""
    make_informer(settings)
    settings.watching.field_selectors[RESOURCE] = f"metadata.name={node}"


def registry_for(worker: Worker, node: str, kubeconfig: Path | None) -> kopf.OperatorRegistry:
    """Kopf's handlers; they talk to the same cluster as the worker."""
    registry = kopf.OperatorRegistry()
    bell = Bell(worker, node)

    @kopf.on.startup(registry=registry)
    async def start(**kwargs: Any) -> None:  # noqa: ANN401 - kopf's own arguments
        configure(kwargs["settings"], node)
        worker.start()

    @kopf.on.cleanup(registry=registry)
    def stop(**_: object) -> None:
        worker.stop()

    add_login(registry, kubeconfig)
    add_probe(registry, worker)

    @kopf.on.event(*RESOURCE, registry=registry, id=MIG_NODE.plural)
    async def seen(event: kopf.RawEvent, **_: object) -> None:
        bell.receive(event)

    return registry


def cluster_for(kubeconfig: Path | None) -> KubernetesCluster:
    """The cluster of a kubeconfig, or without one that of the pod."""
    if kubeconfig is None:
        return KubernetesCluster.in_cluster(MANAGER)
    return KubernetesCluster.from_kubeconfig(MANAGER, kubeconfig)


def run(worker: Worker, node: str, kubeconfig: Path | None, liveness_port: int | None) -> None:
    """Run the agent until SIGTERM or SIGINT."""
    quieten()
    liveness = None if liveness_port is None else f"http://0.0.0.0:{liveness_port}/healthz"
    registry = registry_for(worker, node, kubeconfig)
    # Otherwise kopf asks for the user's name, and in a container its number may have none.
    identity: Any = node
    kopf.run(registry=registry, standalone=True, clusterwide=True, identity=identity, liveness_endpoint=liveness)
