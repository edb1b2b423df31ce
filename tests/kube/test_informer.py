"""kopf's requests have a burst, and then a slow and steady pace, whatever goes wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from mig_manager.kube.informer import Allowance, paced_session


class Plain:
    """A connection without TLS."""

    proxy_url = None
    trust_env = False

    def as_http_headers(self) -> dict[str, str]:
        """Who we are."""
        return {"Authorization": "Bearer abc"}

    def as_ssl_context(self) -> ssl.SSLContext:
        """Nobody is asked."""
        return ssl.create_default_context()


@asynccontextmanager
async def server(seen: list[str]) -> AsyncIterator[str]:
    """A server that notes who asks."""

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(text="{}")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def test_burst_then_a_steady_pace() -> None:
    """Three at once, then one every ten seconds; after a silence as many as that is worth."""
    allowance = Allowance(burst=3, interval_s=10.0)
    assert [0, 0, 0, 10, 20] == [allowance.wait_s(100.0) for _ in range(5)]
    assert 0 == allowance.wait_s(150.0)
    assert [0, 0, 0, 10] == [allowance.wait_s(1000.0) for _ in range(4)]


def test_requests_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session asks with our name, and only when it may."""
    waits: list[float] = []
    seen: list[str] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def ask() -> None:
        async with server(seen) as url, paced_session(Plain(), Allowance(burst=2, interval_s=60.0)) as session:
            with monkeypatch.context() as patched:
                patched.setattr("mig_manager.kube.informer.asyncio.sleep", sleep)
                for _ in range(3):
                    async with session.get(url) as response:
                        assert 200 == response.status

    asyncio.run(ask())
    assert ["Bearer abc"] * 3 == seen
    assert [60] == [round(wait) for wait in waits]
