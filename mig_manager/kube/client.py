"""The Cluster port on the official Kubernetes client: the only module that imports it.

Requests go through the client's raw call path, because its typed one costs several times the memory and time, refuses
objects that the server accepts, and cannot express a removed key. Nothing is retried here: every caller is
level-triggered and comes again, and a hidden retry would hold it up.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from mig_manager.kube.errors import ClusterError, ForbiddenError, GoneError, UnavailableError, from_status
from mig_manager.kube.kinds import POD, Kind
from mig_manager.kube.port import Listing, Object, PatchType
from mig_manager.kube.server_time import ServerTime

_SECONDS = re.compile("[0-9]{1,9}")
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
PAGE_SIZE = 120
"""Objects in one answer: the pods of a node fit into one (110 at most by default), and a controller that lists 5,000
nodes holds few of them at once, which decides how much memory it needs."""
HTTP_ERROR = 400


@dataclass(frozen=True, slots=True)
class _Request:
    """One request: what it does in words, the verb and kind it is counted under, and what goes over the wire."""

    doing: str
    verb: str
    kind: Kind
    method: str
    path: str
    body: object = None
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


class KubernetesCluster:
    """A cluster that is reached over HTTPS; ``requests`` counts what was sent, by verb and kind."""

    def __init__(self, configuration: Configuration, manager: str) -> None:
        # A status is an answer, not a reason to repeat: with urllib3's default a GET that is told 429 would block here.
        configuration.retries = urllib3.Retry(total=0, redirect=0, respect_retry_after_header=False)
        self._api = ApiClient(configuration)
        self._manager = manager
        self._time = ServerTime()
        self.requests: Counter[tuple[str, str]] = Counter()

    @classmethod
    def from_kubeconfig(cls, manager: str, file: Path | None = None, context: str | None = None) -> KubernetesCluster:
        """The cluster of a kubeconfig: that file, or what kubectl would use; ForbiddenError when it has none."""
        import yaml

        configuration, doing = Configuration(), f"reading kubeconfig {file or '(default)'}"
        try:
            path = None if file is None else str(file)
            config.load_kube_config(config_file=path, context=context, client_configuration=configuration)
        except config.ConfigException as error:
            raise ForbiddenError(doing, str(error)) from error
        except OSError as error:
            raise ForbiddenError(doing, str(error.strerror)) from error
        except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            # The client library takes for granted that it is one.
            raise ForbiddenError(doing, "this is not a kubeconfig") from error
        return cls(configuration, manager)

    @classmethod
    def in_cluster(cls, manager: str) -> KubernetesCluster:
        """The cluster that this pod runs in, as its ServiceAccount; ForbiddenError outside of a pod."""
        configuration = Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException as error:
            raise ForbiddenError("reading the pod's ServiceAccount", str(error)) from error
        return cls(configuration, manager)

    @property
    def manager(self) -> str:
        """The name under which ``metadata.managedFields`` records what this client writes."""
        return self._manager

    def now(self) -> datetime:
        """The present by the server's clock."""
        return self._time.now()

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """Read one object live."""
        kind.check_scope(namespace)
        doing = f"reading {kind.describe(name, namespace)}"
        return self._send(_Request(doing, "get", kind, "GET", kind.path(namespace, name)))

    def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Read all objects that match, in pages of ``PAGE_SIZE``."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        try:
            return self._list(kind, namespace, {**selectors, "limit": str(PAGE_SIZE)})
        except GoneError:
            # The pages outlived what the server keeps; one unpaged list is what client-go's pager does then.
            return self._list(kind, namespace, selectors)

    def pages(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Iterator[Listing]:
        """As ``list``, one page of ``PAGE_SIZE`` after the other."""
        yield from self._pages(
            kind, namespace, {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE_SIZE)}
        )

    def _list(self, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Listing:
        pages = list(self._pages(kind, namespace, query))
        return Listing(tuple(item for page in pages for item in page.items), pages[-1].resource_version)

    def _pages(self, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Iterator[Listing]:
        proceed = ""
        while True:
            doing = f"listing {kind.plural}"
            pages = {**query, "continue": proceed}
            page = self._send(_Request(doing, "list", kind, "GET", kind.path(namespace), query=pages))
            yield Listing(tuple(page["items"]), page["metadata"]["resourceVersion"])
            proceed = page["metadata"].get("continue", "")
            if not proceed:
                return

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None = None) -> Object:
        """Create an object."""
        kind.check_scope(namespace)
        content = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        doing = f"creating {kind.describe(body['metadata']['name'], namespace)}"
        return self._send(_Request(doing, "create", kind, "POST", kind.path(namespace), content))

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
        """Change an object and return it as it is afterwards."""
        kind.check_scope(namespace)
        doing = f"patching {kind.describe(name, namespace)}"
        path = kind.path(namespace, name, subresource)
        return self._send(_Request(doing, "patch", kind, "PATCH", path, body, content_type=patch_type.value))

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
        """Ask for an object's deletion, or only whether it would be allowed."""
        kind.check_scope(namespace)
        options = _delete_options(uid, resource_version, grace_s) | ({"dryRun": ["All"]} if dry_run else {})
        doing = f"deleting {kind.describe(name, namespace)}"
        verb = "delete-dry-run" if dry_run else "delete"
        self._send(_Request(doing, verb, kind, "DELETE", kind.path(namespace, name), options))

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace_s: int | None = None) -> None:
        """Delete a pod if its PodDisruptionBudget allows, or only ask."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, None, grace_s) | ({"dryRun": ["All"]} if dry_run else {}),
        }
        # The query parameter too: without it the create itself would not count as a dry run.
        query = {"dryRun": "All"} if dry_run else {}
        doing = f"evicting {POD.describe(name, namespace)}"
        verb = "evict-dry-run" if dry_run else "evict"
        self._send(_Request(doing, verb, POD, "POST", POD.path(namespace, name, "eviction"), body, query=query))

    def _send(self, asked: _Request) -> Object:
        """Send one request; the decoded answer, or the error that its status means."""
        self.requests[asked.verb, asked.kind.name] += 1
        doing = asked.doing
        parameters = {key: value for key, value in asked.query.items() if value}
        if asked.method in ("POST", "PATCH"):
            parameters["fieldManager"] = self._manager
            if asked.kind.is_custom:
                # Otherwise the server drops fields that an older CRD does not know, and answers as if all were well.
                parameters["fieldValidation"] = "Strict"
        headers = {"Accept": "application/json", "Content-Type": asked.content_type, "User-Agent": self._manager}
        request = self._api.param_serialize(
            asked.method,
            asked.path,
            query_params=list(parameters.items()),
            header_params=headers,
            body=asked.body,
            auth_settings=["BearerToken"],
        )
        sent = time.monotonic()
        try:
            response = self._api.call_api(*request, _request_timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S))
            content = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnavailableError(doing, self._why(error)) from error
        except ApiException as error:
            # The client wraps TLS failures in one; a status comes back as a response here.
            raise UnavailableError(doing, str(error.reason)) from error
        self._time.heard(response.headers.get("Date"), time.monotonic() - sent)
        if response.status >= HTTP_ERROR:
            raise _error(doing, response.status, content, response.headers.get("Retry-After"))
        try:
            decoded = json.loads(content)
        except ValueError as error:
            raise UnavailableError(doing, f"an answer that is not JSON: {content[:80]!r}") from error
        if not isinstance(decoded, dict):
            raise UnavailableError(doing, f"an answer that is no object: {content[:80]!r}")
        return decoded

    def _why(self, error: Exception) -> str:
        """The server's address and what went wrong, without urllib3's account of its retries and objects."""
        reason = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error
        return f"{self._api.configuration.host}: {str(reason).rpartition('): ')[2]}"


def _delete_options(uid: str | None, resource_version: str | None, grace_s: int | None) -> dict[str, Any]:
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    wanted = {key: value for key, value in preconditions.items() if value is not None}
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if wanted:
        options["preconditions"] = wanted
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options


def _error(doing: str, code: int, content: bytes, retry_after: str | None) -> ClusterError:
    try:
        status = json.loads(content)
    except ValueError:
        # A proxy or the server's last words: text, shown as it came.
        status = {"message": f"HTTP {code}: {content[:200].decode(errors='replace').strip()}"}
    # A date is allowed there, too; the API server sends seconds.
    asked = _SECONDS.fullmatch(retry_after or "")
    seconds = float(asked[0]) if asked else 0.0
    return from_status(doing, code, status if isinstance(status, dict) else {}, seconds)
