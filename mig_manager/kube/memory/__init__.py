"""A Cluster in memory that refuses what the API server refuses, for thousands of step, kill and fault cases.

It is held to the real API server by the contract suite in ``tests/kube``. What it leaves out: validation of built-in
kinds, watches (``history`` hands out old versions instead), server-side apply, and every controller but two that are
called by hand, garbage collection by owner and the end of a pod.
"""

from mig_manager.kube.memory.cluster import Call, MemoryCluster
from mig_manager.kube.memory.store import Store

__all__ = ["Call", "MemoryCluster", "Store"]
