"""The port to the Kubernetes API: the few verbs that agent and controller need, dicts in and dicts out.

Dicts, because the typed models of the official client validate what the server answers (a pod that they do not like is
an exception) and cannot say "remove this label". Watching is not here: that is kopf's part.

Every call either answers within the implementation's time limit or raises; every error is a ClusterError of
``mig_manager.kube.errors``. A caller never sees an object that it could change by accident: what comes back is a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from mig_manager.kube.kinds import Kind

Object = dict[str, Any]
"""A Kubernetes object as the API's JSON."""


class PatchType(Enum):
    """How a patch is meant, by its content type."""

    MERGE = "application/merge-patch+json"
    """RFC 7386: maps merge, ``None`` removes, lists are replaced. The project's own kinds know it and JSON."""

    STRATEGIC = "application/strategic-merge-patch+json"
    """Kubernetes' own: as merge, but some lists merge by key (conditions by type). Built-in kinds only."""

    JSON = "application/json-patch+json"
    """RFC 6902: a list of operations, for edits of lists, with ``test`` as guard."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a list, and the version of the cluster at which they were all true."""

    items: tuple[Object, ...]
    resource_version: str


class Cluster(Protocol):
    """A Kubernetes cluster as one field manager sees it."""

    @property
    def manager(self) -> str:
        """The name under which ``metadata.managedFields`` records what this client writes."""
        ...

    def now(self) -> datetime:
        """The present, in UTC, by the server's clock as far as its answers have told it; asks nothing of anybody."""
        ...

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """Read one object live; NotFoundError."""
        ...

    def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Read all objects that match the label and field selectors, page by page; no namespace means all."""
        ...

    def pages(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Iterator[Listing]:
        """As ``list``, one page after the other, for a caller that keeps little of what may be 5,000 objects.

        All pages are true at the same version. GoneError when they outlived what the server keeps: start anew.
        """
        ...

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None = None) -> Object:
        """Create an object; AlreadyExistsError, InvalidError."""
        ...

    def patch(  # noqa: PLR0913 - the API's own parameters
        self,
        kind: Kind,
        name: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
    ) -> Object:
        """Change an object and return it as it is afterwards.

        With ``metadata.resourceVersion`` in the body the patch applies to exactly that version, else ConflictError.
        """
        ...

    def delete(  # noqa: PLR0913 - the API's own parameters
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for an object's deletion; a pod on a node stays until its grace period is over.

        With ``dry_run`` only ask whether it would be allowed (ForbiddenError), and change nothing.
        ConflictError when it has not that uid or resourceVersion; NotFoundError.
        """
        ...

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace_s: int | None = None) -> None:
        """Delete a pod if its PodDisruptionBudget allows, or with ``dry_run`` only ask whether it would.

        BlockedError while the budget refuses (or several match), ConflictError when another pod has the name by now,
        NotFoundError when it is gone.
        """
        ...
