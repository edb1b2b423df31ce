"""How a request to the Kubernetes API can fail, told apart by what the caller does next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORBIDDEN = 403
TOO_MANY_REQUESTS = 429
DISRUPTION_BUDGET_CAUSE = "DisruptionBudget"
"""The cause in the answer to an eviction that a PodDisruptionBudget refuses: ``policy/v1`` in k8s.io/api."""

NAMESPACE_TERMINATING_CAUSE = "NamespaceTerminating"
"""The cause in the refusal to create something, an eviction too, in a namespace that is being deleted: ``core/v1``."""

UID_FIELD = "metadata.uid"

MORE_THAN_ONE_BUDGET = "more than one PodDisruptionBudget"
"""Part of the 500 that the eviction subresource answers when several budgets match a pod."""


class ClusterError(Exception):
    """A request that failed: ``doing`` names the act (``patching Node n1``), ``text`` is the server's own words."""

    reason = "ClusterError"

    def __init__(self, doing: str, text: str) -> None:
        self.doing = doing
        self.text = text
        super().__init__(f"{doing}: {text}")


class NotFoundError(ClusterError):
    """The object, or its kind, is not there."""

    reason = "NotFound"


class ConflictError(ClusterError):
    """The object is not as the caller read it: another resourceVersion or another uid. Read again and decide anew."""

    reason = "Conflict"


class AlreadyExistsError(ConflictError):
    """There is an object of that name already."""

    reason = "AlreadyExists"


class InvalidError(ClusterError):
    """The server refuses the content; the same request will fail again."""

    reason = "Invalid"


class ForbiddenError(ClusterError):
    """The caller may not do this, or is not known (any more)."""

    reason = "Forbidden"


class NamespaceTerminatingError(ForbiddenError):
    """The namespace is being deleted, and everything in it goes; nothing new is created there."""

    reason = "NamespaceTerminating"


class GoneError(ClusterError):
    """The version asked for is no longer kept; list anew."""

    reason = "Gone"


class UnavailableError(ClusterError):
    """The server did not answer, or could not. Whether a write took place is not known. Try again later."""

    reason = "Unavailable"


class TooManyRequestsError(ClusterError):
    """The server asks for ``retry_after_s`` seconds of patience; nothing was done."""

    reason = "TooManyRequests"

    def __init__(self, doing: str, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(doing, text)


class BlockedError(ClusterError):
    """A PodDisruptionBudget refuses an eviction for now; ``retry_after_s`` is the server's wish, 0 when it has none."""

    reason = "Blocked"

    def __init__(self, doing: str, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(doing, text)


_BY_STATUS: dict[int, type[ClusterError]] = {
    400: InvalidError,
    401: ForbiddenError,
    FORBIDDEN: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}


def from_status(doing: str, code: int, status: Mapping[str, Any], retry_after_s: float) -> ClusterError:
    """The error for an HTTP status and the ``Status`` object that came with it (Kubernetes API conventions)."""
    text = str(status.get("message") or f"HTTP {code}")
    details = status.get("details") or {}
    causes = details.get("causes") or []
    for cause in causes:
        error = _from_cause(cause, doing, text, retry_after_s)
        if error is not None:
            return error
    if MORE_THAN_ONE_BUDGET in text:
        # Not a fault of the server: it stays so until somebody removes a budget, and the pod must not go meanwhile.
        return BlockedError(doing, text, retry_after_s)
    if code == TOO_MANY_REQUESTS:
        return TooManyRequestsError(doing, text, retry_after_s)
    if status.get("reason") == AlreadyExistsError.reason:
        return AlreadyExistsError(doing, text)
    return _BY_STATUS.get(code, UnavailableError)(doing, text)


def _from_cause(cause: Mapping[str, Any], doing: str, text: str, retry_after_s: float) -> ClusterError | None:
    """The error that one cause of a Status stands for, where it says more than the HTTP status."""
    if cause.get("reason") == DISRUPTION_BUDGET_CAUSE:
        return BlockedError(doing, str(cause.get("message") or text), retry_after_s)
    if cause.get("reason") == NAMESPACE_TERMINATING_CAUSE:
        return NamespaceTerminatingError(doing, text)
    if cause.get("field") == UID_FIELD:
        # A patch naming the uid of an earlier object of that name gets 422 (a DELETE gets 409); both mean the same.
        return ConflictError(doing, text)
    return None
