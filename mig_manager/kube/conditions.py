"""Conditions in the status of Kubernetes' own objects, Nodes and Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_true(obj: Mapping[str, Any], condition: str) -> bool:
    """Whether the object's condition of that type is true; one that is not there is not."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)
