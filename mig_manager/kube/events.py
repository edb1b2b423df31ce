"""Events that ``kubectl describe`` shows, one per transition.

An Event on a cluster-scoped object stands in the namespace ``default`` with an *empty* ``involvedObject.namespace``:
``kubectl describe node`` asks for exactly that, and the API server accepts it in no other namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from mig_manager.kube.errors import AlreadyExistsError
from mig_manager.kube.kinds import EVENT
from mig_manager.kube.port import Cluster
from mig_manager.wording import shortened

NAME_LIMIT = 253
DIGEST_LENGTH = 16


class EventType(StrEnum):
    """How an Event is shown."""

    NORMAL = "Normal"
    WARNING = "Warning"


def post(  # noqa: PLR0913 - what an Event consists of
    cluster: Cluster,
    regarding: Mapping[str, Any],
    *,
    event_type: EventType,
    reason: str,
    message: str,
    now: datetime,
    host: str = "",
    once: bool = False,
) -> None:
    """Say that something happened to an object; ``host`` is the node of whoever says it.

    Said again with the same words, the count of the Event goes up; with ``once`` nothing happens then, and creating is
    all that the caller must be allowed.

    Raises ClusterError; whether an Event may be lost is for the caller to decide.
    """
    metadata = regarding["metadata"]
    namespace = metadata.get("namespace", "default")
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    message = shortened(message)
    words = "\0".join((metadata["uid"], cluster.manager, event_type, reason, message))
    digest = hashlib.sha256(words.encode()).hexdigest()[:DIGEST_LENGTH]
    name = f"{metadata['name'][: NAME_LIMIT - 1 - DIGEST_LENGTH]}.{digest}"
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
        },
        "type": str(event_type),
        "reason": reason,
        "message": message,
        "source": {"component": cluster.manager} | ({"host": host} if host else {}),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    try:
        cluster.create(EVENT, body, namespace)
    except AlreadyExistsError:
        if once:
            return
        count = int(cluster.get(EVENT, name, namespace).get("count", 1))
        cluster.patch(EVENT, name, {"count": count + 1, "lastTimestamp": stamp}, namespace)
