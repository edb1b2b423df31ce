"""Apply patches as the API server does: JSON merge patch, strategic merge patch, JSON patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mig_manager.kube.memory.copying import copied

Json = Any
"""A JSON value: type checkers have no better word for "any of these, and of these again"."""

MERGE_KEYS: dict[tuple[str, ...], str] = {
    ("metadata", "ownerReferences"): "uid",
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
}
"""The ``patchMergeKey`` of the lists that a strategic merge patch merges, from k8s.io/api core/v1.

Node taints are not among them: ``listType=atomic``, a patch replaces them.
"""

MERGED_SETS = {("metadata", "finalizers")}
"""Lists of plain values whose strategic merge is the union."""


class PatchError(Exception):
    """A patch that cannot be applied; the API server answers 422."""


def merge(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copied(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic_merge(target: Json, patch: Json, path: tuple[str, ...] = ()) -> Json:
    """Kubernetes' strategic merge, with the directives ``$patch: delete`` and ``$patch: replace``."""
    if isinstance(patch, Mapping):
        return _strategic_map(target, patch, path)
    if isinstance(patch, Sequence) and not isinstance(patch, str):
        if path in MERGE_KEYS:
            return _strategic_list(target or [], patch, path)
        if path in MERGED_SETS:
            return [*(target or []), *(value for value in patch if value not in (target or []))]
    return copied(patch)


def _strategic_map(target: Json, patch: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if patch.get("$patch") == "replace":
        return {key: copied(value) for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = strategic_merge(result.get(key), value, (*path, key))
    return result


def _strategic_list(target: Sequence[Any], patch: Sequence[Any], path: tuple[str, ...]) -> list[Any]:
    key = MERGE_KEYS[path]
    if any(item == {"$patch": "replace"} for item in patch):
        return [copied(item) for item in patch if item != {"$patch": "replace"}]
    result = {item[key]: item for item in target}
    for item in patch:
        if key not in item:
            raise PatchError(f"{'.'.join(path)}: map does not contain key {key}")
        if item.get("$patch") == "delete":
            result.pop(item[key], None)
        else:
            result[item[key]] = strategic_merge(result.get(item[key]), item, (*path, "*"))
    return list(result.values())


def json_patch(target: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """RFC 6902: ``add``, ``remove``, ``replace`` and ``test``, all or nothing."""
    result = copied(target)
    for operation in operations:
        _operate(result, operation)
    return result


def _operate(document: Json, operation: Mapping[str, Any]) -> None:
    name, path = operation["op"], operation["path"]
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    place = document
    for part in parents:
        place = _child(place, part, path)
    if name == "test":
        if _child(place, last, path) != operation["value"]:
            raise PatchError(f"testing path {path}: test failed")
    elif name == "add":
        _add(place, last, copied(operation["value"]), path)
    elif name in ("remove", "replace"):
        _child(place, last, path)
        key = int(last) if isinstance(place, list) else last
        if name == "remove":
            del place[key]
        else:
            place[key] = copied(operation["value"])
    else:
        raise PatchError(f"operation {name} is not supported")


def _child(place: Json, part: str, path: str) -> Json:
    if isinstance(place, dict) and part in place:
        return place[part]
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return place[int(part)]
    raise PatchError(f"{path}: there is no {part}")


def _add(place: Json, last: str, value: Json, path: str) -> None:
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and last == "-":
        place.append(value)
    elif isinstance(place, list) and last.isdigit() and int(last) <= len(place):
        place.insert(int(last), value)
    else:
        raise PatchError(f"{path}: there is no such place")
