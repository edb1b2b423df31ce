"""Counting what a program asks the API server, by verb and kind, kopf's requests included."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qs

from tests.e2e.processes import Process
from tests.e2e.proxy import Request
from tests.e2e.waiting import until

QUIET_S = 6.0
"""Who has asked nothing for so long, longer than any of the product's short waits, has come to rest."""


def asked(request: Request) -> str:
    """``patch mignodes/status``, ``evict``, ``watch mignodes``; ``discover`` asks what the server offers."""
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if not parts:
        return "discover"
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    plural, name, subresource = [*parts, "", ""][:3]
    query = parse_qs(request.query)
    if subresource == "eviction":
        return "evict, dry run" if "dryRun" in query else "evict"
    kind = f"{plural}/{subresource}" if subresource else plural
    if request.method == "GET":
        return f"{'watch' if 'watch' in query else 'get' if name else 'list'} {kind}"
    return f"{ {'POST': 'create'}.get(request.method, request.method.lower()) } {kind}"


def counted(requests: Sequence[Request]) -> str:
    """``12: 4 × get nodes, 2 × patch nodes, ...``, what is frequent first."""
    kinds = Counter(asked(request) for request in requests)
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def at_rest(process: Process) -> int:
    """Wait until the process asks nothing more; how many requests it has made so far, in all its lives."""
    seen, since = -1, 0.0

    def quiet() -> bool:
        nonlocal seen, since
        if len(process.proxy.requests) != seen:
            seen, since = len(process.proxy.requests), time.monotonic()
        return time.monotonic() - since >= QUIET_S

    until(f"{process.name} to come to rest", quiet, explain=process.tail)
    return seen
