"""Find the programs of the control plane: what the user names, the cache, or a build.

``$KUBEBUILDER_ASSETS`` (a directory as ``setup-envtest`` fills it) wins; it usually holds etcd and kube-apiserver only.
Otherwise one multi-call program is built once from ``hack/controlplane`` and kept in the user's cache directory under
a key of everything that shapes it, so that a change of version never runs an old program.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mig_manager.sim.cache import cache_directory
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.progress import Report

KUBERNETES_VERSION = "1.36.3"
"""The version that ``hack/controlplane/go.mod`` requires; a program without it set reports v0.0.0."""

REQUIRED = ("etcd", "kube-apiserver")
OPTIONAL = ("kube-controller-manager", "kube-scheduler", "kubelet")
SOURCES = ("go.mod", "go.sum", "main.go")
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


def find(report: Report, environ: Mapping[str, str] = os.environ) -> Programs:
    """Return the programs, building them if need be (minutes, the first time).

    Raises ControlPlaneError, which says what to install, when there is no way to get them.
    """
    assets = environ.get(ASSETS_VARIABLE)
    if assets:
        return _named_by_user(Path(assets))
    sources = source_directory()
    target = cache_directory("controlplane", environ) / cache_key(sources)
    if not Programs(target).has("etcd"):
        from mig_manager.sim.controlplane.build import build

        build(sources, target, report, environ)
    return Programs(target)


def _named_by_user(directory: Path) -> Programs:
    programs = Programs(directory)
    absent = [name for name in REQUIRED if not programs.has(name)]
    if absent:
        raise ControlPlaneError(
            f"looking for the control plane: ${ASSETS_VARIABLE} is {directory}, which has no executable"
            f" {' and no '.join(absent)}; point it at the output of 'setup-envtest use -p path', or unset it to build"
        )
    return programs


def source_directory() -> Path:
    """The Go module in the checkout that this package belongs to; an installed wheel has none."""
    directory = Path(__file__).resolve().parents[3] / "hack" / "controlplane"
    absent = [name for name in SOURCES if not (directory / name).is_file()]
    if absent:
        raise ControlPlaneError(
            f"looking for the control plane: {directory / absent[0]} is missing, because only a checkout of the project"
            f" has the Go sources; run from a checkout, or set ${ASSETS_VARIABLE} to a directory with etcd and"
            " kube-apiserver (from setup-envtest)"
        )
    return directory


def build_flags() -> tuple[str, ...]:
    """The flags of ``go build``: small, reproducible, and with the version the server reports."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    version = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor}
    settings = [f"-X {version}.{name}={value}" for name, value in values.items()]
    return ("-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *settings]))


def cache_key(sources: Path) -> str:
    """A name that changes with the sources, the module sums, the flags and the machine's architecture."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    digest.update("\0".join((*build_flags(), platform.system(), platform.machine())).encode())
    return f"v{KUBERNETES_VERSION}-{digest.hexdigest()[:16]}"
