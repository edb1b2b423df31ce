"""Pods as the drain sees them."""

from __future__ import annotations

from typing import Any

CREATED = "2026-03-04T12:00:00Z"


def pod(phase: str = "Running", spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """A pod ``ns/p``; without ``ownerReferences`` a bare one."""
    named = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": CREATED, **metadata}
    return {"metadata": named, "spec": spec or {}, "status": {"phase": phase}}


def owned_by(kind: str, version: str = "apps/v1", *, controller: bool = True) -> list[dict[str, object]]:
    """Owner references with one owner."""
    return [{"apiVersion": version, "kind": kind, "name": "owner", "uid": "o", "controller": controller}]
