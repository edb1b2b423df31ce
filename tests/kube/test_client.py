"""The client on the official library when the server does not behave: a small server of scripted answers."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from kubernetes.client import Configuration
from kubernetes.config import incluster_config

from mig_manager.kube import client, errors
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import LEASE, MIG_NODE, NODE, POD
from mig_manager.kube.port import PatchType
from mig_manager.sim.controlplane.access import Access


@dataclass
class Server:
    """Answers in the order given, and remembers what it was asked; its clock is ``ahead`` of this machine's."""

    url: str = ""
    ahead: timedelta = timedelta()
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, list[str]], dict[str, str], Any]] = field(default_factory=list)

    def answer(self, status: int, body: object, **headers: str) -> None:
        """The next answer; bytes are sent as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, {name.replace("_", "-"): value for name, value in headers.items()}, content))


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        """Plays the script."""

        def handle_one(self) -> None:
            """Answer one request."""
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            url = urlsplit(self.path)
            body = json.loads(content) if content else None
            state.asked.append((self.command, url.path, parse_qs(url.query), dict(self.headers), body))
            status, headers, answer = state.answers.pop(0)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815 - named by http.server

        def date_time_string(self, _timestamp: float | None = None) -> str:
            """What stands in ``Date``."""
            return format_datetime(datetime.now(UTC) + state.ahead, usegmt=True)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture
def cluster(server: Server) -> Iterator[KubernetesCluster]:
    made = KubernetesCluster(Configuration(host=server.url), "mig-manager-test")
    yield made
    made.close()


def status(message: str, **details: object) -> dict[str, object]:
    return {"kind": "Status", "status": "Failure", "message": message, **details}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, errors.InvalidError),
        (401, errors.ForbiddenError),
        (403, errors.ForbiddenError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (410, errors.GoneError),
        (422, errors.InvalidError),
        (429, errors.TooManyRequestsError),
        (500, errors.UnavailableError),
        (503, errors.UnavailableError),
    ],
)
def test_every_status_has_its_error(
    server: Server, cluster: KubernetesCluster, code: int, expected: type[errors.ClusterError]
) -> None:
    """The class tells what to do next; the text is the server's, and nothing is asked twice."""
    server.answer(code, status("the server's own words"))
    with pytest.raises(errors.ClusterError) as caught:
        cluster.get(NODE, "n1")
    assert expected is type(caught.value)
    assert "reading Node n1: the server's own words" == str(caught.value)
    assert 1 == len(server.asked)


def test_retry_after_is_handed_on(server: Server, cluster: KubernetesCluster) -> None:
    """A 429 surfaces at once, with the seconds the server asks for."""
    server.answer(429, status("slow down"), Retry_After="7")
    with pytest.raises(errors.TooManyRequestsError) as caught:
        cluster.get(NODE, "n1")
    assert 7.0 == caught.value.retry_after_s


@pytest.mark.parametrize("seconds", ["²", "9" * 500, "Wed, 21 Oct 2026 07:28:00 GMT", "-1"])
def test_retry_after_that_is_no_number(server: Server, cluster: KubernetesCluster, seconds: str) -> None:
    """What a proxy writes there instead of seconds says nothing."""
    server.answer(429, status("slow down"), Retry_After=seconds)
    with pytest.raises(errors.TooManyRequestsError) as caught:
        cluster.get(NODE, "n1")
    assert 0.0 == caught.value.retry_after_s


def test_blocked_eviction_names_the_budget(server: Server, cluster: KubernetesCluster) -> None:
    """The cause of the answer is the text of the error, because it says which budget and how many pods."""
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2"}]
    server.answer(429, status("Cannot evict pod", details={"causes": causes}), Retry_After="10")
    with pytest.raises(errors.BlockedError, match="evicting Pod a/p: The disruption budget web needs 2") as caught:
        cluster.evict("a", "p", "uid-1")
    assert 10.0 == caught.value.retry_after_s


def test_eviction_is_bound_to_the_uid(server: Server, cluster: KubernetesCluster) -> None:
    """The uid goes as precondition, the dry run into both query and body, the grace period into the options."""
    server.answer(201, status("", status="Success"))
    cluster.evict("a", "p", "uid-1", dry_run=True, grace_s=5)
    method, path, query, _, body = server.asked[0]
    assert ("POST", "/api/v1/namespaces/a/pods/p/eviction") == (method, path)
    assert ["All"] == query["dryRun"]
    assert {"uid": "uid-1"} == body["deleteOptions"]["preconditions"]
    assert (["All"], 5) == (body["deleteOptions"]["dryRun"], body["deleteOptions"]["gracePeriodSeconds"])


@pytest.mark.parametrize(("dry_run", "verb"), [(True, "delete-dry-run"), (False, "delete")])
def test_deletion_as_a_dry_run(server: Server, cluster: KubernetesCluster, dry_run: bool, verb: str) -> None:
    """It goes in the options, beside the uid, and is counted apart."""
    server.answer(200, status("", status="Success"))
    cluster.delete(POD, "p", "a", uid="uid-1", dry_run=dry_run)
    method, path, _, _, body = server.asked[0]
    assert ("DELETE", "/api/v1/namespaces/a/pods/p") == (method, path)
    assert (["All"] if dry_run else None) == body.get("dryRun")
    assert {"uid": "uid-1"} == body["preconditions"]
    assert {(verb, "Pod"): 1} == cluster.requests


def test_writes_name_their_manager_and_type(server: Server, cluster: KubernetesCluster) -> None:
    """A patch carries the field manager and its content type."""
    server.answer(200, {"metadata": {}})
    cluster.patch(MIG_NODE, "n1", {"status": {}}, subresource="status", patch_type=PatchType.MERGE)
    method, path, query, headers, _ = server.asked[0]
    assert ("PATCH", "/apis/migmanager.io/v1alpha1/mignodes/n1/status") == (method, path)
    assert (["mig-manager-test"], ["Strict"]) == (query["fieldManager"], query["fieldValidation"])
    assert "application/merge-patch+json" == headers["Content-Type"]


def test_lists_come_in_pages(server: Server, cluster: KubernetesCluster) -> None:
    """All pages are read; the version is that of the list."""
    server.answer(200, {"metadata": {"continue": "x", "resourceVersion": "5"}, "items": [{"n": 1}]})
    server.answer(200, {"metadata": {"resourceVersion": "5"}, "items": [{"n": 2}]})
    listing = cluster.list(POD, labels="a=b", fields="spec.nodeName=n1")
    assert ({"n": 1}, {"n": 2}) == listing.items
    assert "5" == listing.resource_version
    first, second = server.asked[0][2], server.asked[1][2]
    asked = (first["labelSelector"], first["fieldSelector"], first["limit"])
    assert (["a=b"], ["spec.nodeName=n1"], ["120"]) == asked
    assert ["x"] == second["continue"]


def test_outlived_pages_are_read_anew(server: Server, cluster: KubernetesCluster) -> None:
    """When a continue token is too old, one unpaged list takes its place, without what was read before."""
    server.answer(200, {"metadata": {"continue": "x", "resourceVersion": "5"}, "items": [{"n": 1}]})
    server.answer(410, status("token expired"))
    server.answer(200, {"metadata": {"resourceVersion": "9"}, "items": [{"n": 1}, {"n": 2}]})
    assert ({"n": 1}, {"n": 2}) == cluster.list(POD).items
    assert "limit" not in server.asked[2][2]


def test_nobody_there() -> None:
    """A refused connection is Unavailable."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = KubernetesCluster(Configuration(host=f"http://127.0.0.1:{port}"), "test")
    with pytest.raises(errors.UnavailableError, match=rf"^reading Lease a/b: http://127.0.0.1:{port}: .*refused$"):
        cluster.get(LEASE, "b", "a")
    cluster.close()


def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and says nothing is Unavailable after the read timeout."""
    monkeypatch.setattr(client, "READ_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = KubernetesCluster(Configuration(host=f"http://127.0.0.1:{silent.getsockname()[1]}"), "test")
        with pytest.raises(errors.UnavailableError, match="timed out"):
            cluster.get(NODE, "n1")
        cluster.close()


@pytest.mark.parametrize("content", [b"<html>", b"[1]", b""])
def test_answer_that_is_no_object(server: Server, cluster: KubernetesCluster, content: bytes) -> None:
    """What a proxy may send instead of an object is Unavailable, not a crash."""
    server.answer(200, content)
    with pytest.raises(errors.UnavailableError, match="an answer that is n"):
        cluster.get(NODE, "n1")


def test_error_that_is_no_status(server: Server, cluster: KubernetesCluster) -> None:
    """An error page is shown as it came."""
    server.answer(503, b"upstream connect error\n")
    with pytest.raises(errors.UnavailableError, match=r"reading Node n1: HTTP 503: upstream connect error$"):
        cluster.get(NODE, "n1")


def test_requests_are_counted(server: Server, cluster: KubernetesCluster) -> None:
    """By verb and kind, a dry run apart."""
    for _ in range(3):
        server.answer(200, {"metadata": {}})
    cluster.get(NODE, "n1")
    cluster.evict("a", "p", "u", dry_run=True)
    cluster.evict("a", "p", "u")
    assert {("get", "Node"): 1, ("evict-dry-run", "Pod"): 1, ("evict", "Pod"): 1} == dict(cluster.requests)


def test_missing_kubeconfig_is_said(tmp_path: Path) -> None:
    """A kubeconfig that is not there is an error with its path."""
    with pytest.raises(errors.ForbiddenError, match=f"^reading kubeconfig {tmp_path}/none: "):
        KubernetesCluster.from_kubeconfig("test", tmp_path / "none")


@pytest.mark.parametrize("content", [b"\x8c", b"a:\n\t- [", b"[]", b"5", b"current-context: c\ncontexts: 5"])
def test_what_is_no_kubeconfig_is_said(tmp_path: Path, content: bytes) -> None:
    """Any other file, or a directory, is an error in one line."""
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(
        errors.ForbiddenError, match=f"^reading kubeconfig {tmp_path}/config: this is not a kubeconfig$"
    ):
        KubernetesCluster.from_kubeconfig("test", tmp_path / "config")
    with pytest.raises(errors.ForbiddenError, match=f"^reading kubeconfig {tmp_path}: Is a directory$"):
        KubernetesCluster.from_kubeconfig("test", tmp_path)


def test_a_pod_is_its_service_account(control_plane: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod the client speaks as the ServiceAccount whose token is mounted, to the address in the environment."""
    config = yaml.safe_load(control_plane.kubeconfig_for_service_account("default", "default").read_text())
    (tmp_path / "token").write_text(config["users"][0]["user"]["token"])
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(authority))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", control_plane.server.rpartition(":")[2])
    cluster = KubernetesCluster.in_cluster("test")
    with pytest.raises(errors.ForbiddenError, match='"system:serviceaccount:default:default" cannot list resource'):
        cluster.list(NODE)
    cluster.close()


def test_outside_of_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """In-cluster access without the pod's environment is refused in words."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(errors.ForbiddenError, match=r"^reading the pod's ServiceAccount: "):
        KubernetesCluster.in_cluster("test")


@pytest.mark.parametrize("code", [200, 404])
@pytest.mark.parametrize("ahead", [-timedelta(hours=1), timedelta(), timedelta(hours=1)])
def test_time_is_the_servers(server: Server, cluster: KubernetesCluster, code: int, ahead: timedelta) -> None:
    """Every answer tells it, a refusal too; before the first this machine's counts."""
    assert abs(cluster.now() - datetime.now(UTC)) < timedelta(minutes=1)
    server.ahead = ahead
    server.answer(code, {"metadata": {"name": "n1"}})
    with contextlib.suppress(errors.NotFoundError):
        cluster.get(NODE, "n1")
    assert abs(cluster.now() - datetime.now(UTC) - ahead) < timedelta(minutes=1)
