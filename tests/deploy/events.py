"""Events as agents post them."""

from __future__ import annotations

from typing import Any

from mig_manager.agent.names import MANAGER

OTHER = "work"
"""A namespace in which there is nothing of ours."""


def event_about(node: str) -> dict[str, Any]:
    """An Event about a Node."""
    return {
        "metadata": {"name": f"test.{node}", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node},
        "source": {"component": MANAGER},
        "type": "Normal",
        "reason": "Test",
        "message": "a test",
    }


def event_about_pod(host: str, reason: str = "RepartitionEviction") -> dict[str, Any]:
    """An Event on the pod ``p`` in the namespace ``OTHER``, posted from a node."""
    return {
        "metadata": {"name": f"p.{host}.{reason.lower()}", "namespace": OTHER},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": OTHER},
        "source": {"component": MANAGER, "host": host},
        "type": "Normal",
        "reason": reason,
        "message": "a test",
    }
