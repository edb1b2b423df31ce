"""What ``kubectl get`` prints of our objects fits the screen, with names as long as clouds make them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from mig_manager.api.conditions import Condition
from mig_manager.api.mignode import Desired, MIGNodeSpec
from mig_manager.api.mignode_status import MIGNodeStatus, PlanStatus, Summary
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, Kind
from mig_manager.sim.controlplane.access import Access
from mig_manager.sim.controlplane.kubectl import find_kubectl
from tests.api.examples import LAYOUT, NOON

WIDTH = 100
CLOUD_NODES = [
    "ip-10-0-163-187.us-west-2.compute.internal",
    "gke-inference-prod-a100-pool-7f3c2d1e-k8xz",
    "aks-gpunp-31718369-vmss00000a",
]
POOL = "inference-h100-eu-west-1"
OF_NODES = ["EvictionBlocked", "ImpactNotAllowed", "WaitingForCompletion"]
OF_POOLS = ["Updating", "ImpactNotAllowed", "ConflictingConfigs", "AgentNotResponding"]


@pytest.fixture
def cluster(control_plane: Access) -> Iterator[KubernetesCluster]:
    made = KubernetesCluster.from_kubeconfig("test", control_plane.kubeconfig)
    yield made
    made.close()


def condition(reason: str) -> Condition:
    return Condition("Ready", "False", reason, f"why it is {reason}", NOON, 1)


def create(cluster: KubernetesCluster, kind: Kind, name: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    cluster.create(kind, {"metadata": {"name": name}, "spec": spec})
    cluster.patch(kind, name, {"status": status}, subresource="status")


def table(access: Access, *arguments: str) -> list[str]:
    command = [str(find_kubectl()), f"--kubeconfig={access.kubeconfig}", "get", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def tables(access: Access, cluster: KubernetesCluster, kind: Kind, names: list[str]) -> tuple[list[str], list[str]]:
    """What kubectl prints of these objects, and what with ``-o wide``; the objects are deleted afterwards."""
    try:
        shown = table(access, kind.name.lower(), *names)
        return shown, table(access, kind.name.lower(), *names, "-o", "wide")
    finally:
        for name in names:
            cluster.delete(kind, name)


def heading(lines: list[str]) -> str:
    return " ".join(lines[0].split())


@pytest.mark.cluster
def test_mignodes_fit(control_plane: Access, cluster: KubernetesCluster) -> None:
    """Each name of a cloud, with the longest impact and a long reason, fits 100 columns; ``-o wide`` says it all."""
    spec = MIGNodeSpec("uid", Desired(POOL, 1, "all-balanced", "ab12", LAYOUT)).to_dict()
    for name, reason in zip(CLOUD_NODES, OF_NODES, strict=True):
        status = MIGNodeStatus(
            plan=PlanStatus("ab12", "RebootNode"),
            summary=Summary("8x A100-SXM4-80GB", "16x 1g.10gb, 8x 2g.20gb, 8x 3g.40gb"),
            step="drain",
            conditions=(condition(reason),),
        )
        create(cluster, MIG_NODE, name, spec, status.to_dict())
    lines, wide = tables(control_plane, cluster, MIG_NODE, CLOUD_NODES)
    assert "NAME PROFILE IMPACT STATUS AGE" == heading(lines)
    assert [] == [line for line in lines if len(line.rstrip()) > WIDTH]
    assert "NAME CONFIG PROFILE STEP GPUS SLICES IMPACT STATUS AGE MESSAGE" == heading(wide)
    assert "16x 1g.10gb, 8x 2g.20gb, 8x 3g.40gb" in wide[1]


@pytest.mark.cluster
def test_migconfigs_fit(control_plane: Access, cluster: KubernetesCluster) -> None:
    """A pool with a telling name and three digits of nodes in every count fits 100 columns, whatever its status."""
    nodes = dict.fromkeys(("total", "ready", "updating", "pending", "blocked", "failed"), 120)
    spec = {"nodeSelector": {"matchLabels": {"no": "node"}}, "profile": "all-balanced"}
    names = [f"{POOL}-{number}" for number in range(len(OF_POOLS))]
    for name, reason in zip(names, OF_POOLS, strict=True):
        status = {"observedGeneration": 1, "nodes": nodes, "conditions": [condition(reason).to_dict()]}
        create(cluster, MIG_CONFIG, name, spec, status)
    lines, wide = tables(control_plane, cluster, MIG_CONFIG, names)
    assert "NAME NODES READY UPDATING BLOCKED FAILED STATUS AGE" == heading(lines)
    assert [] == [line for line in lines if len(line.rstrip()) > WIDTH]
    assert "NAME PROFILE NODES READY UPDATING BLOCKED FAILED STATUS AGE MESSAGE" == heading(wide)
