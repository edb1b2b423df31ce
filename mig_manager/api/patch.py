"""What has to be sent so that an object becomes another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from ``before`` to ``after``; empty when they are equal.

    A field that is gone is sent as null: merely leaving it out of a patch would keep it. Lists are replaced whole.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        present = before.get(name)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            inner = merge_patch(present, value)
            if inner:
                patch[name] = inner
        elif name not in before or present != value:
            patch[name] = value
    return patch
