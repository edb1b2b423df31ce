"""What kopf is told alike in the agent and in the controller: how to log in, how to watch, what to be silent about.

kopf opens a session of its own, beside that of the port ``Cluster``; both go to the same API server.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Protocol

import kopf

from mig_manager.kube.backoff import EndlessBackoffs
from mig_manager.kube.in_cluster import api_server
from mig_manager.kube.informer import Allowance, paced_session
from mig_manager.kube.kinds import GROUP, MIG_NODE

CRD_KIND = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")

QUIET_LOGGERS = ("kopf.objects", "kopf.activities.probe", "aiohttp.access")
"""They say something at every event or probe; silence is what an idle program should log."""


class Alive(Protocol):
    """A program that can tell whether it gets on."""

    @property
    def healthy(self) -> bool:
        """Whether it shows signs of life."""
        ...

    @property
    def silent_s(self) -> float:
        """For how many seconds it has shown none."""
        ...


def quieten() -> None:
    """Let kopf log what people want to know, and no more."""
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def make_informer(settings: kopf.OperatorSettings) -> None:
    """Make kopf a patient and frugal informer, which posts no Events."""
    settings.posting.enabled = False
    settings.networking.error_backoffs = EndlessBackoffs()
    # An idle worker keeps its object in memory until this time is over.
    settings.queueing.idle_timeout = 0.2
    settings.watching.server_timeout = 600
    # kopf watches CustomResourceDefinitions to see kinds come, without this every one of the cluster. Ours come
    # together; the later of them is enough.
    settings.watching.field_selectors[CRD_KIND] = f"metadata.name={MIG_NODE.plural}.{GROUP}"


def add_login(registry: kopf.OperatorRegistry, kubeconfig: Path | None) -> None:
    """Kopf logs in where a kubeconfig says, or without one as the pod's ServiceAccount."""
    allowance = Allowance()

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:  # noqa: ANN401 - kopf's own arguments
        # Read anew each time: a token that was refused has been replaced meanwhile, or will be.
        found = (kopf.login_with_kubeconfig if kubeconfig else kopf.login_with_service_account)(**kwargs)
        if found is None:
            return None
        # By address in a pod: the cluster's DNS may be away.
        server = found.server if kubeconfig else api_server()
        return kopf.AiohttpSession(server=server, aiohttp_session=paced_session(found, allowance))


def add_probe(registry: kopf.OperatorRegistry, program: Alive) -> None:
    """The liveness probe fails when the program shows no sign of life, and says for how long it has been silent."""

    @kopf.on.probe(registry=registry)
    def silent_seconds(**_: object) -> int:
        if not program.healthy:
            # Any other error would leave the probe hanging instead of failing.
            raise kopf.PermanentError(f"no sign of life for {program.silent_s:.0f} s")
        return round(program.silent_s)
