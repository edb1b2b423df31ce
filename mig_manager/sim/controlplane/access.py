"""How to reach a running control plane: kubeconfigs, and the few raw requests that starting one needs.

Everything is in files of one directory, so that several processes can share one control plane.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.pki import Authority

REQUEST_TIMEOUT_S = 10.0
ESTABLISH_TIMEOUT_S = 30.0
POLL_S = 0.05
TOKEN_LIFETIME_S = 24 * 3600
ADMIN_GROUP = "system:masters"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

HTTP_OK = 200
HTTP_CREATED = 201
HTTP_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an API server listens."""

    address: str
    port: int


class Access:
    """The ways into the control plane whose files are in ``directory`` and whose API server listens at ``endpoint``."""

    def __init__(self, directory: Path, endpoint: Endpoint, authority: Authority) -> None:
        self.directory = directory
        self.server = f"https://{endpoint.address}:{endpoint.port}"
        self._endpoint = endpoint
        self._authority = authority
        self._context: ssl.SSLContext | None = None

    @classmethod
    def load(cls, directory: Path) -> Access:
        """The access to a control plane that another process started in that directory."""
        endpoint = Endpoint(**json.loads((directory / "access.json").read_text()))
        return cls(directory, endpoint, Authority.load(directory / "pki"))

    def save(self) -> None:
        """Let other processes ``load`` this access."""
        (self.directory / "access.json").write_text(json.dumps(asdict(self._endpoint)))

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signs for servers and users."""
        return self._authority.pair.certificate

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it embeds its certificates, so it may be copied."""
        return self.kubeconfig_for("admin", (ADMIN_GROUP,))

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for any user; what the user may do is for RBAC to say."""
        digest = hashlib.sha256("\0".join((user, *groups)).encode()).hexdigest()[:8]
        path = self.directory / f"{_file_name(user)}-{digest}.kubeconfig"
        if not path.exists():
            client = self._authority.client(_unique(_file_name(user)), user, groups)
            self._write_kubeconfig(
                path,
                {
                    "client-certificate-data": _embedded(client.certificate),
                    "client-key-data": _embedded(client.key),
                },
            )
        return path

    def kubeconfig_for_service_account(self, namespace: str, name: str, pod: Mapping[str, Any] | None = None) -> Path:
        """A kubeconfig with a fresh token of a ServiceAccount, as a pod would have it.

        With ``pod`` (an object as the API shows it) the token is bound to it; if the pod is on a node, the token then
        carries the node's name, which admission policies can check.
        """
        spec: dict[str, Any] = {"expirationSeconds": TOKEN_LIFETIME_S}
        if pod is not None:
            metadata = pod["metadata"]
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        status, answer = self.request("POST", path, {"spec": spec})
        if status != HTTP_CREATED:
            text = f"creating a token for ServiceAccount {namespace}/{name}: {status}: {answer.get('message')}"
            raise ControlPlaneError(text)
        return self.kubeconfig_with_token(f"{namespace}-{name}", answer["status"]["token"])

    def kubeconfig_with_token(self, name: str, token: str) -> Path:
        """A kubeconfig, called after ``name``, with a token from wherever."""
        file = self.directory / f"{_unique(_file_name(name))}.kubeconfig"
        self._write_kubeconfig(file, {"token": token})
        return file

    def _write_kubeconfig(self, path: Path, user: Mapping[str, str]) -> None:
        authority = _embedded(self._authority.pair.certificate)
        cluster = {"server": self.server, "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "mig-manager", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "mig-manager", "context": {"cluster": "mig-manager", "user": "user"}}],
            "current-context": "mig-manager",
        }
        # Another process that shares the control plane sees the whole file or none.
        scratch = path.with_name(_unique(path.name))
        scratch.touch(mode=0o600)
        # JSON is YAML, and needs no library.
        scratch.write_text(json.dumps(document, indent=2))
        scratch.replace(path)

    def request(
        self, method: str, path: str, body: object = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> tuple[int, Any]:
        """Send one request as administrator; return status and answer, or raise OSError when there is no answer.

        An answer that is not JSON (``/readyz`` says ``ok``) comes back as text.
        """
        if self._context is None:
            admin = self._authority.client(_unique("runner"), "admin", (ADMIN_GROUP,))
            self._context = ssl.create_default_context(cafile=str(self._authority.pair.certificate))
            self._context.load_cert_chain(admin.certificate, admin.key)
        connection = HTTPSConnection(
            self._endpoint.address, self._endpoint.port, timeout=timeout_s, context=self._context
        )
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        except HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text

    def install_crds(self, files: Iterable[Path]) -> None:
        """Create the CustomResourceDefinitions of these YAML files and wait until their resources are served."""
        import yaml

        documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
        for document in documents:
            name = document["metadata"]["name"]
            status, answer = self.request("POST", CRD_PATH, document)
            if status not in (HTTP_CREATED, HTTP_CONFLICT):
                raise ControlPlaneError(f"creating CustomResourceDefinition {name}: {status}: {answer.get('message')}")
        for document in documents:
            spec = document["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            wait_until(f"{spec['names']['plural']} to be served", partial(self._serves, path))

    def _serves(self, path: str) -> bool:
        return self.request("GET", path)[0] == HTTP_OK


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", text)


def _unique(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"


def wait_until(
    what: str,
    true: Callable[[], bool],
    timeout_s: float = ESTABLISH_TIMEOUT_S,
    give_up: Callable[[], None] = lambda: None,
) -> None:
    """Poll until ``true``; ``give_up`` may raise earlier. An OSError counts as not yet, but is kept as the reason."""
    deadline = time.monotonic() + timeout_s
    reason = ""
    while True:
        give_up()
        try:
            if true():
                return
            reason = ""
        except OSError as error:
            reason = f": {error}"
        if time.monotonic() > deadline:
            raise ControlPlaneError(f"waiting for {what}: not after {timeout_s:.0f} s{reason}")
        time.sleep(POLL_S)
