"""The programs of the control plane: which there are, of which version, and what is missing without some."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.36.3"
"""The version that ``hack/controlplane/go.mod`` requires; a program without it set reports v0.0.0."""

REQUIRED = ("etcd", "kube-apiserver")
OPTIONAL = ("kube-controller-manager", "kube-scheduler", "kubelet")
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True, slots=True)
class Programs:
    """A directory with the programs, each under its own name."""

    directory: Path

    def path(self, name: str) -> Path:
        """Where the program of that name is, or would be."""
        return self.directory / name

    def has(self, name: str) -> bool:
        """Whether the program can be run."""
        return os.access(self.path(name), os.X_OK)

    @property
    def missing_features(self) -> tuple[str, ...]:
        """What will not work for want of a program, in words; empty when everything is there."""
        missing = []
        if not self.has("kube-controller-manager"):
            missing.append(
                "no kube-controller-manager: PodDisruptionBudgets are not enforced, DaemonSets create no pods, objects"
                " are not removed with their owner, namespaces get no default ServiceAccount"
            )
        if not self.has("kube-scheduler"):
            missing.append("no kube-scheduler: pods without spec.nodeName stay Pending")
        return tuple(missing)


def build_flags() -> tuple[str, ...]:
    """The flags of ``go build``: small, reproducible, and with the version the server reports."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    version = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor}
    settings = [f"-X {version}.{name}={value}" for name, value in values.items()]
    return ("-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *settings]))
