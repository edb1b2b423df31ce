"""How stories of a real node begin: it has its slices, and pods use them."""

from __future__ import annotations

from tests.e2e.layouts import NARROW, PROFILES, SEVEN, WIDE
from tests.node.cluster import RealCluster, Slices
from tests.node.real import RealNode

MORE_PROFILES = {
    **PROFILES,
    "seven": {"gpus": [{"slices": [{"slice": "1g.10gb", "count": 7}]}]},
    "four": {"gpus": [{"slices": [{"slice": "1g.10gb", "count": 4}, {"slice": "3g.40gb", "count": 1}]}]},
    "off": {"gpus": [{"mig": "Disabled"}]},
}
SLICES: dict[str, Slices] = {
    "wide": WIDE,
    "narrow": NARROW,
    "seven": SEVEN,
    "four": {"1g.10gb": 4, "3g.40gb": 1},
}


def cut(cluster: RealCluster, node: RealNode, profile: str = "wide", **spec: object) -> None:
    """There is a pool of that profile, and the node has its slices."""
    cluster.config(profile, profiles=MORE_PROFILES, **spec)
    cluster.finished(node, SLICES[profile])


def deployed(cluster: RealCluster, node: RealNode, app: str, replicas: int, resource: str) -> None:
    """There is a Deployment, and all its pods use the node's cards."""
    cluster.deployment(app, replicas, resource)
    cluster.until(f"all pods of {app} to run", lambda: cluster.using(node, app) == replicas)
