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
from pathlib import Path

from mig_manager.sim.cache import cache_directory
from mig_manager.sim.controlplane.build import build
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.programs import ASSETS_VARIABLE, KUBERNETES_VERSION, REQUIRED, Programs, build_flags
from mig_manager.sim.controlplane.progress import Report

SOURCES = ("go.mod", "go.sum", "main.go")


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


def cache_key(sources: Path) -> str:
    """A name that changes with the sources, the module sums, the flags and the machine's architecture."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    digest.update("\0".join((*build_flags(), platform.system(), platform.machine())).encode())
    return f"v{KUBERNETES_VERSION}-{digest.hexdigest()[:16]}"
