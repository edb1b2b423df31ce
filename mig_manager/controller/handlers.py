"""kopf's part of the controller: it watches, and rings. The only module here that imports it.

Every event goes into the store, and if it changed anything there, the loop is rung. Nothing is decided, patched or
retried by kopf: its own state would be annotations on objects of others, and its finalizers would hold Nodes up.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import kopf

from mig_manager.controller.lease import new_identity
from mig_manager.controller.process import Process
from mig_manager.controller.settings import Settings
from mig_manager.controller.store import Table, key_of, version_of
from mig_manager.kube.client import PAGE_SIZE, KubernetesCluster
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE, POD, Kind
from mig_manager.kube.kopf_shell import add_login, add_probe, make_informer, quieten

MANAGER = "mig-manager-controller"
NAMESPACE_KIND = ("", "v1", "namespaces")


def configure(kopf_settings: kopf.OperatorSettings, settings: Settings) -> None:
    """Make kopf an informer of what the controller decides by."""
    make_informer(kopf_settings)
    kopf_settings.watching.chunk_size = PAGE_SIZE
    kopf_settings.watching.inactivity_timeout = 70
    # kopf watches namespaces to see them come; the only one that matters is the one in which the agents' pods are.
    kopf_settings.watching.field_selectors[NAMESPACE_KIND] = f"metadata.name={settings.namespace}"
    if settings.agent_selector:
        kopf_settings.watching.label_selectors[_selector(POD)] = settings.agent_selector


def receive(table: Table[Any], process: Process, event: kopf.RawEvent) -> None:
    """Take one watch event in."""
    obj = event["object"]
    changed = table.remove(key_of(obj), version_of(obj)) if event["type"] == "DELETED" else table.put(obj)
    if changed:
        process.loop.ring()


def registry_for(process: Process, settings: Settings, kubeconfig: Path | None) -> kopf.OperatorRegistry:
    """Kopf's handlers; they talk to the same cluster as the process."""
    registry = kopf.OperatorRegistry()
    tables: list[tuple[Kind, Table[Any]]] = [
        (MIG_CONFIG, process.store.configs),
        (MIG_NODE, process.store.mignodes),
        (NODE, process.store.nodes),
    ]
    if settings.agent_selector:
        tables.append((POD, process.store.agents))
    for kind, table in tables:
        _watch(registry, kind, table, process)

    @kopf.on.startup(registry=registry)
    async def start(**kwargs: Any) -> None:  # noqa: ANN401 - kopf's own arguments
        configure(kwargs["settings"], settings)
        process.start()

    @kopf.on.cleanup(registry=registry)
    def stop(**_: object) -> None:
        process.stop()

    add_login(registry, kubeconfig)
    add_probe(registry, process)

    return registry


def _watch(registry: kopf.OperatorRegistry, kind: Kind, table: Table[Any], process: Process) -> None:
    @kopf.on.event(*_selector(kind), registry=registry, id=kind.plural)
    async def seen(event: kopf.RawEvent, **_: object) -> None:
        receive(table, process, event)


def _selector(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


def cluster_for(kubeconfig: Path | None) -> KubernetesCluster:
    """The cluster of a kubeconfig, or without one that of the pod."""
    if kubeconfig is None:
        return KubernetesCluster.in_cluster(MANAGER)
    return KubernetesCluster.from_kubeconfig(MANAGER, kubeconfig)


def run(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the controller until SIGTERM or SIGINT. Raises ForbiddenError when there is no cluster to talk to."""
    quieten()
    # Kopf gets one too: otherwise it asks for the user's name, and in a container its number has none.
    identity: Any = new_identity()
    process = Process(cluster_for(kubeconfig), settings, identity, time.monotonic)
    liveness = None if settings.liveness_port is None else f"http://0.0.0.0:{settings.liveness_port}/healthz"
    registry = registry_for(process, settings, kubeconfig)
    kopf.run(
        registry=registry,
        standalone=True,
        namespaces=[settings.namespace],
        identity=identity,
        liveness_endpoint=liveness,
    )
