"""The HTTP session of kopf, with a bound on how often it asks.

kopf opens a watch again at once when a server, or a load balancer before it, closes it without an error: 1,800 requests
a second from one process were measured with kopf 1.45. And when a token is refused that reads the same on disk, kopf's
own session gives up for good, and the process ends; a new session is a new try. Whatever the reason is: after a first
burst requests leave at a slow and steady pace.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import aiohttp

BURST = 40
"""Requests that may leave at once: discovery, lists and watches of a start are about a dozen."""

INTERVAL_S = 3.0
"""One request in this time when the burst is used up. An informer that works needs one in minutes."""


class Connection(Protocol):
    """Where to connect and how, as kopf's login helpers say it."""

    @property
    def proxy_url(self) -> str | None:
        """The proxy, if any."""
        ...

    @property
    def trust_env(self) -> bool:
        """Whether the environment's proxy settings count."""
        ...

    def as_http_headers(self) -> dict[str, str]:
        """Headers that prove who we are."""
        ...

    def as_ssl_context(self) -> ssl.SSLContext:
        """Whom to trust, and our certificate."""
        ...


@dataclass
class Allowance:
    """``burst`` requests at once, and one every ``interval_s`` from then on; what is not used is saved up again."""

    burst: int = BURST
    interval_s: float = INTERVAL_S
    _paid_until: float = 0.0

    def wait_s(self, now: float) -> float:
        """Count one more request; for how many seconds it has to wait."""
        self._paid_until = max(self._paid_until, now) + self.interval_s
        return max(0.0, self._paid_until - now - self.burst * self.interval_s)


def paced_session(connection: Connection, allowance: Allowance) -> aiohttp.ClientSession:
    """A session whose requests wait for their turn. Call it inside of the event loop that uses it."""
    import aiohttp

    async def take_turn(*_: object) -> None:
        wait_s = allowance.wait_s(asyncio.get_running_loop().time())
        if wait_s:
            await asyncio.sleep(wait_s)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(take_turn)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=connection.as_ssl_context()),
        headers=connection.as_http_headers(),
        proxy=connection.proxy_url,
        trust_env=connection.trust_env,
        trace_configs=[trace],
    )
