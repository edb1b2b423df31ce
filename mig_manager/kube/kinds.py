"""The kinds of objects that the product touches, and where the API server serves them."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "migmanager.io"
VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: its name, its API group (empty for the core group), version, plural and scope."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition of this project brings it: such kinds know no strategic merge patch."""
        return self.group == GROUP

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of one object, or without ``name`` of a collection; ``None`` as namespace means all of them."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [prefix]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)

    def describe(self, name: str, namespace: str | None = None) -> str:
        """How error messages call an object: ``Node n1``, ``Pod default/p``."""
        return f"{self.name} {namespace}/{name}" if namespace else f"{self.name} {name}"

    def check_scope(self, namespace: str | None) -> None:
        """Raise ValueError, a mistake of the caller, when one object is named without what its scope asks for."""
        if self.namespaced and namespace is None:
            raise ValueError(f"a {self.name} is named by namespace and name")
        if not self.namespaced and namespace is not None:
            raise ValueError(f"a {self.name} is in no namespace")


NODE = Kind("Node", "", "v1", "nodes", namespaced=False)
POD = Kind("Pod", "", "v1", "pods", namespaced=True)
EVENT = Kind("Event", "", "v1", "events", namespaced=True)
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases", namespaced=True)
DAEMON_SET = Kind("DaemonSet", "apps", "v1", "daemonsets", namespaced=True)
POD_DISRUPTION_BUDGET = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", namespaced=True)
RESOURCE_SLICE = Kind("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False)
RESOURCE_SLICE_BETA = Kind("ResourceSlice", "resource.k8s.io", "v1beta1", "resourceslices", namespaced=False)
"""As API servers before Kubernetes 1.34 know it, where it is switched on."""
MIG_CONFIG = Kind("MIGConfig", GROUP, VERSION, "migconfigs", namespaced=False)
MIG_NODE = Kind("MIGNode", GROUP, VERSION, "mignodes", namespaced=False)

KINDS = (NODE, POD, EVENT, LEASE, DAEMON_SET, POD_DISRUPTION_BUDGET, RESOURCE_SLICE, MIG_CONFIG, MIG_NODE)
"""What an API server of today serves."""
