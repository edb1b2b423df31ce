"""A Cluster in memory that refuses what the API server refuses, for thousands of step, kill and fault cases.

It is held to the real API server by the contract suite in ``tests/kube``. MIGConfigs and MIGNodes are validated and
defaulted by their schemas. What it leaves out: validation of built-in kinds, watches (``Store.history`` hands out old
versions instead), server-side apply, finalizers, and every controller; two are there to be called by hand, garbage
collection by owner (``collect_garbage``) and the end of a pod (``end_pod``).
"""

from mig_manager.kube.memory.cluster import Call, MemoryCluster
from mig_manager.kube.memory.store import Store

__all__ = ["Call", "MemoryCluster", "Store"]
