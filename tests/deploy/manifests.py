"""The manifests as kubectl renders them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mig_manager.sim.controlplane.kubectl import find_kubectl

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"

VARIANTS = ("", "gpu-operator", "device-plugin")
"""What can be installed: directories of ``deploy``, itself among them."""

Manifest = dict[str, Any]


@cache
def rendered(variant: str) -> tuple[Manifest, ...]:
    """The objects of a variant."""
    command = [str(find_kubectl()), "kustomize", str(DEPLOY / variant)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return tuple(yaml.safe_load_all(text))


def find(variant: str, kind: str, name: str) -> Manifest:
    """One object of a variant."""
    (found,) = (m for m in rendered(variant) if (m["kind"], m["metadata"]["name"]) == (kind, name))
    return found


def pod_of(variant: str, kind: str, name: str) -> Manifest:
    """The pod template's spec of a workload."""
    spec: Manifest = find(variant, kind, name)["spec"]["template"]["spec"]
    return spec


def rules_of(variant: str, account: str) -> list[Manifest]:
    """The rules of every role that is bound to a ServiceAccount of the product."""
    roles = {
        (m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]): m["rules"]
        for m in rendered(variant)
        if m["kind"] in ("Role", "ClusterRole")
    }
    return [
        rule
        for m in rendered(variant)
        if m["kind"] in ("RoleBinding", "ClusterRoleBinding") and account in [s["name"] for s in m["subjects"]]
        for rule in roles[m["roleRef"]["kind"], m["metadata"].get("namespace"), m["roleRef"]["name"]]
    ]
