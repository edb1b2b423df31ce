"""Copies of objects, so that nobody's changes reach what the cluster has stored."""

from __future__ import annotations

from typing import TypeVar, cast

T = TypeVar("T")


def copied(value: T) -> T:
    """A JSON value with maps and lists of its own. ``copy.deepcopy`` takes more than twice as long."""
    if isinstance(value, dict):
        return cast("T", {key: copied(item) for key, item in value.items()})
    if isinstance(value, list):
        return cast("T", [copied(item) for item in value])
    return value
