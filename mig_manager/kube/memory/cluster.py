"""The Cluster port in memory: one client's view of a Store, with places to make calls fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from mig_manager.api import schema
from mig_manager.geometry.errors import LayoutError
from mig_manager.kube.errors import (
    FORBIDDEN,
    NAMESPACE_TERMINATING_CAUSE,
    TOO_MANY_REQUESTS,
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
    from_status,
)
from mig_manager.kube.kinds import KINDS, MIG_CONFIG, POD, POD_DISRUPTION_BUDGET, Kind
from mig_manager.kube.memory import budgets, patches, selectors
from mig_manager.kube.memory.copying import copied
from mig_manager.kube.memory.store import WITH_STATUS, Key, Store
from mig_manager.kube.port import Listing, Object, PatchType

T = TypeVar("T")

DEFAULT_GRACE_S = 30
"""Kubernetes' default of ``terminationGracePeriodSeconds``."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the port, as hooks see it."""

    verb: str
    kind: Kind
    name: str
    namespace: str | None = None
    body: object = None
    subresource: str | None = None


def nothing(_call: Call) -> None:
    """The hook that does nothing."""


class MemoryCluster:
    """A client of a Store under its own manager name; several clients may share one Store.

    ``before`` and ``after`` are called around every call and may raise: before, and the request never arrived; after,
    and it was carried out but the answer was lost.
    """

    def __init__(
        self,
        store: Store,
        manager: str,
        before: Callable[[Call], None] = nothing,
        after: Callable[[Call], None] = nothing,
    ) -> None:
        self.store = store
        self.before = before
        self.after = after
        self._manager = manager

    @property
    def manager(self) -> str:
        """The name under which ``metadata.managedFields`` records what this client writes."""
        return self._manager

    def now(self) -> datetime:
        """The present by the store's clock."""
        return self.store.now()

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """Read one object live."""
        kind.check_scope(namespace)
        return self._do(
            Call("get", kind, name, namespace),
            lambda: copied(self._existing((kind, namespace, name), "reading")),
        )

    def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """Read all objects that match."""

        def read() -> Listing:
            if kind not in self.store.served:
                raise NotFoundError(f"listing {kind.plural}", "the server could not find the requested resource")
            found = [
                copied(body)
                for _, body in self.store.of_kind(kind, namespace)
                if selectors.labels_match(labels, body["metadata"].get("labels") or {})
                and selectors.fields_match(fields, body)
            ]
            return Listing(tuple(found), str(self.store.resource_version))

        return self._do(Call("list", kind, "", namespace), read)

    def pages(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Iterator[Listing]:
        """Read all objects that match, as one page."""
        yield self.list(kind, namespace, labels=labels, fields=fields)

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None = None) -> Object:
        """Create an object."""
        kind.check_scope(namespace)
        name = body["metadata"]["name"]

        def write() -> Object:
            key = (kind, namespace, name)
            self._check_namespace(f"creating {kind.describe(name, namespace)}", namespace)
            if self.store.find(key) is not None:
                text = f'{kind.plural} "{name}" already exists'
                raise AlreadyExistsError(f"creating {kind.describe(name, namespace)}", text)
            asked = _validated(f"creating {kind.describe(name, namespace)}", kind, copied(dict(body)))
            return copied(self.store.insert(key, asked, self._manager))

        return self._do(Call("create", kind, name, namespace, body), write)

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

        def write() -> Object:
            current = self._existing((kind, namespace, name), "patching")
            if subresource is not None and (subresource != "status" or kind not in WITH_STATUS):
                raise NotFoundError(doing, f"{kind.plural} have no subresource {subresource}")
            changed = _patched(doing, kind, current, body, patch_type)
            for field, error in (("uid", ConflictError), ("name", InvalidError), ("resourceVersion", ConflictError)):
                if changed["metadata"].get(field) != current["metadata"][field]:
                    raise error(
                        doing, f"metadata.{field} is {current['metadata'][field]}: the object has been modified"
                    )
            key = (kind, namespace, name)
            changed = _validated(doing, kind, changed)
            return copied(self.store.replace(key, changed, self._manager, subresource))

        return self._do(Call("patch", kind, name, namespace, body, subresource), write)

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
        """Ask for an object's deletion; a pod on a node stays until ``end_pod``, unless ``grace_s`` is 0."""
        kind.check_scope(namespace)

        def write() -> None:
            key = (kind, namespace, name)
            current = self._existing(key, "deleting")
            self._check(key, "deleting", current, uid, resource_version)
            if not dry_run:
                self._remove(key, current, grace_s)

        self._do(Call("delete-dry-run" if dry_run else "delete", kind, name, namespace), write)

    def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace_s: int | None = None) -> None:
        """Delete a pod if its PodDisruptionBudget allows, or only ask."""

        def write() -> None:
            key = (POD, namespace, name)
            self._check_namespace(f"evicting {POD.describe(name, namespace)}", namespace)
            pod = self._existing(key, "evicting")
            self._check(key, "evicting", pod, uid, None)
            verdict = budgets.judge(
                pod,
                [body for _, body in self.store.of_kind(POD_DISRUPTION_BUDGET, namespace)],
                [body for _, body in self.store.of_kind(POD, namespace)],
                {budget: count for (space, budget), count in self.store.expected_pods.items() if space == namespace},
            )
            if not verdict.allowed:
                causes = (
                    [{"reason": "DisruptionBudget", "message": verdict.text}]
                    if verdict.code == TOO_MANY_REQUESTS
                    else []
                )
                answer = {"message": verdict.text, "details": {"causes": causes}}
                raise from_status(f"evicting {POD.describe(name, namespace)}", verdict.code, answer, 0.0)
            if not dry_run:
                self._remove(key, pod, grace_s)

        self._do(Call("evict-dry-run" if dry_run else "evict", POD, name, namespace), write)

    def end_pod(self, namespace: str, name: str) -> None:
        """What the kubelet does at the end of the grace period: a pod that is being deleted goes for good."""
        with self.store.lock:
            pod = self._existing((POD, namespace, name), "ending")
            if "deletionTimestamp" not in pod["metadata"]:
                raise ValueError(f"Pod {namespace}/{name} is not being deleted")
            self.store.remove((POD, namespace, name))

    def collect_garbage(self) -> None:
        """What the garbage collector does: remove objects all of whose owners are gone."""
        with self.store.lock:
            while orphans := _orphans(self.store):
                for key in orphans:
                    self.store.remove(key)

    def _do(self, call: Call, act: Callable[[], T]) -> T:
        self.before(call)
        with self.store.lock:
            result = act()
        self.after(call)
        return result

    def _existing(self, key: Key, doing: str) -> Object:
        kind, namespace, name = key
        found = self.store.find(key)
        if found is None:
            raise NotFoundError(f"{doing} {kind.describe(name, namespace)}", f'{kind.plural} "{name}" not found')
        return found

    def _check_namespace(self, doing: str, namespace: str | None) -> None:
        """What the admission plugin NamespaceLifecycle refuses: creating, and an eviction is created too."""
        if namespace in self.store.terminating:
            cause = {"reason": NAMESPACE_TERMINATING_CAUSE}
            text = f"namespace {namespace} is being terminated"
            raise from_status(doing, FORBIDDEN, {"message": text, "details": {"causes": [cause]}}, 0.0)

    @staticmethod
    def _check(key: Key, doing: str, current: Object, uid: str | None, resource_version: str | None) -> None:
        kind, namespace, name = key
        for field, wanted in (("uid", uid), ("resourceVersion", resource_version)):
            actual = current["metadata"][field]
            if wanted is not None and wanted != actual:
                text = f"the {field} in the precondition ({wanted}) does not match the {field} in record ({actual})"
                raise ConflictError(f"{doing} {kind.describe(name, namespace)}", text)

    def _remove(self, key: Key, current: Object, grace_s: int | None) -> None:
        if key[0] == POD:
            spec = current.get("spec", {})
            on_node = bool(spec.get("nodeName")) and current["status"].get("phase") not in ("Succeeded", "Failed")
            grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S) if grace_s is None else grace_s
            if on_node and grace > 0:
                self.store.mark_deleted(key, grace)
                return
        self.store.remove(key)


def _validated(doing: str, kind: Kind, body: Object) -> Object:
    """One of the project's own objects as its schema admits it, with defaults; other kinds as they are."""
    if not kind.is_custom:
        return body
    full = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    try:
        return schema.validate(full, "MIGConfig" if kind == MIG_CONFIG else "MIGNode")
    except LayoutError as error:
        raise InvalidError(doing, str(error)) from error


def _orphans(store: Store) -> list[Key]:
    everything = [entry for kind in KINDS for entry in store.of_kind(kind)]
    uids = {body["metadata"]["uid"] for _, body in everything}
    return [
        key
        for key, body in everything
        if (owners := body["metadata"].get("ownerReferences")) and uids.isdisjoint(owner["uid"] for owner in owners)
    ]


def _patched(
    doing: str,
    kind: Kind,
    current: Object,
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    patch_type: PatchType,
) -> Object:
    try:
        if patch_type is PatchType.JSON and isinstance(body, Sequence):
            return _object(doing, patches.json_patch(current, body))
        if patch_type is PatchType.STRATEGIC and not kind.is_custom:
            return _object(doing, patches.strategic_merge(current, body))
        if patch_type is PatchType.MERGE and isinstance(body, Mapping):
            return _object(doing, patches.merge(current, body))
    except patches.PatchError as error:
        raise InvalidError(doing, str(error)) from error
    raise InvalidError(doing, f"a {kind.name} cannot be patched with {patch_type.value} and {type(body).__name__}")


def _object(doing: str, patched: object) -> Object:
    if not isinstance(patched, dict):
        raise InvalidError(doing, "the patch leaves no object")
    return patched
