"""How the API server can fail an agent, by what it answers; the product's own reading of HTTP is part of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mig_manager.kube.errors import ClusterError, UnavailableError, from_status


@dataclass(frozen=True)
class Failure:
    """One way to fail; ``lost`` says that the request was carried out all the same."""

    error: Callable[[str], ClusterError]
    lost: bool = False


def answered(code: int, message: str, retry_after_s: float = 0.0) -> Failure:
    """The server answers with that status code."""
    return Failure(lambda doing: from_status(doing, code, {"message": message}, retry_after_s))


def silent(message: str, *, lost: bool = False) -> Failure:
    """No answer comes; what the client makes of time limits and broken connections."""
    return Failure(lambda doing: UnavailableError(doing, message), lost)


FAILURES = {
    "401-token-expired": answered(401, "Unauthorized"),
    "403-forbidden": answered(403, "forbidden"),
    "409-conflict": answered(409, "the object has been modified"),
    "410-gone": answered(410, "too old resource version"),
    "422-invalid": answered(422, "is invalid"),
    "429-slow-down": answered(429, "too many requests", 1.0),
    "500-internal": answered(500, "etcdserver: request timed out"),
    "503-unavailable": answered(503, "no endpoints available"),
    "timeout": silent("timed out"),
    "connection-reset": silent("connection reset by peer", lost=True),
}
