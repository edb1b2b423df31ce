"""kopf's part of the controller: it watches, and rings. The only module here that imports it.

Every event goes into the store, and if it changed anything there, the loop is rung. Nothing is decided, patched or
retried by kopf: its own state would be annotations on objects of others, and its finalizers would hold Nodes up.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import kopf

from mig_manager.controller.lease import new_identity
from mig_manager.controller.process import Process
from mig_manager.controller.settings import Settings
from mig_manager.controller.store import Table, key_of, version_of
from mig_manager.kube.backoff import EndlessBackoffs
from mig_manager.kube.client import PAGE_SIZE, KubernetesCluster
from mig_manager.kube.in_cluster import api_server
from mig_manager.kube.informer import Allowance, paced_session
from mig_manager.kube.kinds import GROUP, MIG_CONFIG, MIG_NODE, NODE, POD, Kind

MANAGER = "mig-manager-controller"
CRD_KIND = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NAMESPACE_KIND = ("", "v1", "namespaces")

QUIET_LOGGERS = ("kopf.objects", "kopf.activities.probe", "aiohttp.access")
"""They say something at every event or probe; silence is what an idle controller should log."""


def configure(kopf_settings: kopf.OperatorSettings, settings: Settings) -> None:
    """Make kopf a patient and frugal informer."""
    kopf_settings.posting.enabled = False
    kopf_settings.networking.error_backoffs = EndlessBackoffs()
    # An idle worker keeps its object in memory until this time is over.
    kopf_settings.queueing.idle_timeout = 0.2
    kopf_settings.watching.chunk_size = PAGE_SIZE
    kopf_settings.watching.server_timeout = 600
    kopf_settings.watching.inactivity_timeout = 70
    # kopf watches CustomResourceDefinitions to see kinds come. Ours come together; the later of them is enough.
    kopf_settings.watching.field_selectors[CRD_KIND] = f"metadata.name={MIG_NODE.plural}.{GROUP}"
    # The same with namespaces: the only one that matters is the one in which the agents' pods are.
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
    allowance = Allowance()
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

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:  # noqa: ANN401 - kopf's own arguments
        # Read anew each time: a token that was refused has been replaced meanwhile, or will be.
        found = (kopf.login_with_kubeconfig if kubeconfig else kopf.login_with_service_account)(**kwargs)
        if found is None:
            return None
        # By address in a pod: the cluster's DNS may be away.
        server = found.server if kubeconfig else api_server()
        return kopf.AiohttpSession(server=server, aiohttp_session=paced_session(found, allowance))

    @kopf.on.probe(registry=registry)
    def silent_seconds(**_: object) -> int:
        if not process.healthy:
            # Any other error would leave the probe hanging instead of failing.
            raise kopf.PermanentError(f"no sign of life for {process.silent_s:.0f} s")
        return round(process.silent_s)

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
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
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
