"""What is deployed on real nodes: the product by its own manifests, the device plugin, and pods that use slices.

The manifests of ``deploy/`` are taken as they are. An overlay adds what stands for hardware and for an image with its
contents: the simulated cards, and the directories of this machine in which Python is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mig_manager.agent.names import STARTUP_TAINT
from mig_manager.kube.port import Object
from mig_manager.sim.node.clients import device_plugin_daemon_set
from mig_manager.sim.node.plugin_devices import Strategy
from tests.deploy.manifests import DEPLOY
from tests.node.host import HARDWARE, KUBELET_ROOT, MACHINE
from tests.node.images import PRODUCT_IMAGE, mounted
from tests.node.pods.hold import HOST_PROC

PRODUCT = "mig-manager"
VARIANT = "gpu-operator"


def write_overlay(directory: Path) -> Path:
    """A kustomization that deploys the product on real nodes; its directory."""
    directory.mkdir()
    agent = _mounts(HARDWARE)
    # The node's processes are in /proc, since the agent's pod shares its process ids.
    agent["args"] = ["agent", "--sim", str(MACHINE), "--proc-root", "/proc"]
    patches = [_patch("DaemonSet", "agent", agent, HARDWARE), _patch("Deployment", "controller", _mounts())]
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(DEPLOY / VARIANT, directory)],
        "components": [os.path.relpath(DEPLOY / "components" / "reboot", directory)],
        "patches": [{"patch": json.dumps(patch)} for patch in patches],
    }
    # JSON is YAML.
    (directory / "kustomization.yaml").write_text(json.dumps(document, indent=2))
    return directory


def _patch(kind: str, name: str, container: dict[str, Any], *more: Path) -> Object:
    spec = {"containers": [{"name": name, **container}], "volumes": _volumes(*more)}
    metadata = {"name": name, "namespace": PRODUCT}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": {"spec": spec}}}


def plugin_daemon_set(strategy: Strategy = Strategy.MIXED) -> Object:
    """The GPU operator's device plugin, with the simulated plugin as its program."""
    body = device_plugin_daemon_set(strategy)
    spec = body["spec"]["template"]["spec"]
    place = KUBELET_ROOT / "device-plugins"
    (container,) = spec["containers"]
    container |= {"image": PRODUCT_IMAGE, "command": _python("tests.node.pods.plugin"), **_mounts(HARDWARE, place)}
    spec |= {"volumes": _volumes(HARDWARE, place), "terminationGracePeriodSeconds": 5}
    # What docs/install.md asks for where nodes register with the startup taint.
    spec["tolerations"] = [*spec["tolerations"], {"key": STARTUP_TAINT, "operator": "Exists"}]
    return body


def pod_spec(*resources: str, count: int = 1) -> dict[str, Any]:
    """A pod that uses so many of each resource like ``mig-3g.40gb`` until it is told to end."""
    container = {
        "name": "main",
        "image": PRODUCT_IMAGE,
        "command": _python("tests.node.pods.hold"),
        "resources": {"limits": {f"nvidia.com/{resource}": str(count) for resource in resources}},
    }
    mounts = _mounts(HARDWARE)
    mounts["volumeMounts"].append({"name": "host-proc", "mountPath": str(HOST_PROC), "readOnly": True})
    volumes = [*_volumes(HARDWARE), {"name": "host-proc", "hostPath": {"path": "/proc"}}]
    return {"containers": [container | mounts], "volumes": volumes, "terminationGracePeriodSeconds": 10}


def _python(module: str) -> list[str]:
    return ["python", "-m", module, str(MACHINE)]


def _mounts(*writable: Path) -> dict[str, Any]:
    read_only = [{"name": _name(p), "mountPath": str(p), "readOnly": True} for p in mounted()]
    return {"volumeMounts": [*read_only, *({"name": _name(p), "mountPath": str(p)} for p in writable)]}


def _volumes(*more: Path) -> list[dict[str, Any]]:
    return [{"name": _name(p), "hostPath": {"path": str(p)}} for p in (*mounted(), *more)]


def _name(path: Path) -> str:
    """A volume's name for a path."""
    return "at" + "".join(c if c.isalnum() else "-" for c in str(path).lower()).rstrip("-")
