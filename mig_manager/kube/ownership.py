"""Who wrote a field last, by ``metadata.managedFields``.

Seen on Kubernetes 1.36: a patch that changes a value makes its manager the owner; one that repeats the value changes
nothing; removing a field leaves it without owner. So the owner is whoever made it what it is.

An object that was created without any field of its own (a Node with nothing but a name), or whose ``managedFields``
somebody cleared, is not tracked: no patch brings the record back. Registered nodes have labels and are tracked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_tracked(body: Mapping[str, Any]) -> bool:
    """Whether the API server records owners for this object; without a record, no owner means nothing."""
    return bool(body["metadata"].get("managedFields"))


def owners(body: Mapping[str, Any], *path: str) -> frozenset[str]:
    """The managers recorded as owners of the field at ``path`` (map keys only, as ``"spec", "unschedulable"``)."""
    found = set()
    for entry in body["metadata"].get("managedFields", ()):
        fields: Any = entry.get("fieldsV1", {})
        for key in path:
            fields = fields.get(f"f:{key}")
            if fields is None:
                break
        else:
            found.add(entry["manager"])
    return frozenset(found)
