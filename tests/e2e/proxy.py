"""A relay between one process and the API server, at which a request can be held: so a kill lands exactly there.

A gate holds the first request that it is meant for, before it is passed on or after it has been carried out but before
the answer is delivered. The process is then in the middle of that very request, for as long as the test wants.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from mig_manager.sim.controlplane.access import Access
from tests.e2e.waiting import DEADLINE_S

_HOP_HEADERS = ("connection", "transfer-encoding", "content-length", "keep-alive", "date", "server")
_CHUNK = 65536


@dataclass(frozen=True)
class Request:
    """What a process asks the API server."""

    method: str
    path: str
    body: Any
    query: str = ""

    def patches(self, plural: str, *, status: bool = False) -> bool:
        """Whether it changes an object of these, or its status."""
        parts = self.path.split("/")
        return self.method == "PATCH" and plural in parts and (parts[-1] == "status") is status


@dataclass(eq=False)
class Gate:
    """Holds the first request of which ``meant`` is true; ``after`` lets the server carry it out first.

    ``request`` is the one, as soon as it has come.
    """

    meant: Callable[[Request], bool]
    after: bool
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    forgotten: bool = False
    request: Request | None = None

    def wait(self) -> None:
        """Wait until a request is held."""
        assert self.reached.wait(DEADLINE_S), "the request that is waited for has not come"

    def open(self, *, forget: bool = False) -> None:
        """Let the request go on its way; or ``forget`` it, because who asked is dead."""
        self.forgotten = forget
        self.opened.set()


@dataclass(eq=False)
class Trouble:
    """What becomes of every request that it is ``meant`` for, while it lasts; ``struck`` says when, in seconds.

    ``status`` is answered without asking the server; 0 hangs up without an answer. ``text`` is sent as the whole of a
    watch instead: nothing, or an event.
    """

    meant: Callable[[Request], bool]
    status: int = 0
    text: str | None = None
    struck: list[float] = field(default_factory=list)

    def most(self, seconds: float) -> int:
        """How many requests were struck within so many seconds, at most."""
        return max((sum(start <= t < start + seconds for t in self.struck) for start in self.struck), default=0)


class Proxy:
    """Listens on a loopback port without TLS and passes everything on with the process's own token."""

    def __init__(self, access: Access) -> None:
        access.request("GET", "/readyz")
        self._access = access
        self._lock = threading.Lock()
        self._gates: list[Gate] = []
        self._troubles: list[Trouble] = []
        self.requests: list[Request] = []
        self._handlers: set[_Handler] = set()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.forget_held()
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            for handler in self._handlers:
                handler.hang_up()
        self._server.server_close()

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig that leads here."""
        document = json.loads(original.read_text())
        document["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        path = original.with_suffix(".proxied")
        path.write_text(json.dumps(document))
        return path

    def hold(self, meant: Callable[[Request], bool], *, after: bool) -> Gate:
        """Put up a gate."""
        gate = Gate(meant, after)
        with self._lock:
            self._gates.append(gate)
        return gate

    def forget_held(self) -> None:
        """Take all gates away; what they hold is never passed on, for the process is dead."""
        with self._lock:
            gates, self._gates = self._gates, []
        for gate in gates:
            gate.open(forget=True)

    @contextmanager
    def trouble(self, trouble: Trouble) -> Iterator[Trouble]:
        """Strike requests, and end the watches that are open, for as long as the block lasts."""
        with self._lock:
            self._troubles.append(trouble)
            for handler in self._handlers:
                handler.hang_up()
        try:
            yield trouble
        finally:
            with self._lock:
                self._troubles.remove(trouble)

    def struck(self, request: Request) -> Trouble | None:
        """The trouble that the request runs into."""
        with self._lock:
            found = next((t for t in self._troubles if t.meant(request)), None)
            if found is not None:
                found.struck.append(time.monotonic())
            return found

    def upstream(self) -> HTTPSConnection:
        """A connection to the API server, which shows no client certificate that matters beside the token."""
        return HTTPSConnection(self._access.server.removeprefix("https://"), context=self._tls(), timeout=600)

    def note(self, request: Request) -> Gate | None:
        """Remember a request; the gate that holds it."""
        with self._lock:
            self.requests.append(request)
            for gate in self._gates:
                if gate.request is None and gate.meant(request):
                    gate.request = request
                    return gate
        return None

    def connected(self, handler: _Handler, *, there: bool) -> None:
        """Take note of a connection of the process, to be ended when the proxy ends."""
        with self._lock:
            (self._handlers.add if there else self._handlers.discard)(handler)

    def _tls(self) -> ssl.SSLContext:
        # Without the administrator's certificate: what counts is who the process is.
        return ssl.create_default_context(cafile=str(self._access._authority.pair.certificate))


class _Handler(BaseHTTPRequestHandler):
    """One connection of the process: request after request, each passed on over one connection to the server."""

    protocol_version = "HTTP/1.1"
    owner: Proxy
    _upstream: HTTPSConnection

    def setup(self) -> None:
        super().setup()
        self._upstream = self.owner.upstream()
        self.owner.connected(self, there=True)

    def finish(self) -> None:
        self.owner.connected(self, there=False)
        self._upstream.close()
        with suppress(OSError):
            super().finish()

    def hang_up(self) -> None:
        """End both connections, whatever is being waited for on them."""
        for connection in (self.connection, self._upstream.sock):
            with suppress(OSError, AttributeError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle(self) -> None:
        # The process was killed, or the proxy ends.
        with suppress(OSError, HTTPException, ValueError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def _relay(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        content = self.rfile.read(length) if length else b""
        url = urlsplit(self.path)
        request = Request(self.command, url.path, json.loads(content) if content else None, url.query)
        trouble = self.owner.struck(request)
        if trouble is not None:
            self._fail(trouble)
            return
        gate = self.owner.note(request)
        if gate is not None and not gate.after:
            gate.reached.set()
            gate.opened.wait()
            if gate.forgotten:
                raise ConnectionAbortedError
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        self._upstream.request(self.command, self.path, content or None, headers)
        response = self._upstream.getresponse()
        if gate is not None and gate.after:
            answer = response.read()
            gate.reached.set()
            gate.opened.wait()
            self._answer(response, answer)
        elif response.headers.get("Transfer-Encoding") == "chunked" and "watch=" in self.path:
            self._stream(response)
        else:
            self._answer(response, response.read())

    def _fail(self, trouble: Trouble) -> None:
        if not trouble.status:
            raise ConnectionAbortedError
        words = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": trouble.status,
            "message": "trouble",
        }
        content = json.dumps(words).encode() if trouble.text is None else trouble.text.encode()
        self.send_response_only(trouble.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _head(self, response: HTTPResponse) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)

    def _answer(self, response: HTTPResponse, content: bytes) -> None:
        self._head(response)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, response: HTTPResponse) -> None:
        self._head(response)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while part := response.read1(_CHUNK):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _relay  # noqa: N815 - the names that the base class looks for
