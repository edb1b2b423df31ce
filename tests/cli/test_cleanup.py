"""``mig-manager cleanup`` on a real API server: the Node is as before the agent, and errors say what to do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mig_manager.agent.names import CORDONED, MANAGER, PREFIX
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import NODE, POD
from mig_manager.kube.port import Object
from mig_manager.sim.controlplane.access import Access
from tests.cli.commands import run

GATE = "nvidia.com/gpu.deploy.dcgm"


@pytest.fixture
def node(control_plane: Access) -> Iterator[str]:
    """A Node that an agent has taken out."""
    agent = KubernetesCluster.from_kubeconfig(MANAGER, control_plane.kubeconfig)
    name = f"left-{uuid.uuid4().hex[:8]}"
    agent.create(NODE, {"metadata": {"name": name, "labels": {GATE: "true", "theirs": "stays"}}})
    paused = json.dumps({"labels": {GATE: "true"}, "taint": False, "restart": []})
    annotations = {CORDONED: '{"grant": 1}', "migmanager.io/paused-clients": paused}
    labels = {GATE: "paused-for-mig-manager", "migmanager.io/state": "updating"}
    agent.patch(
        NODE, name, {"metadata": {"annotations": annotations, "labels": labels}, "spec": {"unschedulable": True}}
    )
    yield name
    agent.delete(NODE, name)
    agent.close()


def marks(node: Object) -> list[object]:
    """What an agent writes on a Node; other things there change by themselves."""
    metadata = node["metadata"]
    return [metadata["labels"], {k: v for k, v in metadata.get("annotations", {}).items() if k.startswith(PREFIX)}]


def cleanup(access: Access, *arguments: str) -> tuple[int, str, str]:
    done = run("cleanup", *arguments, "--namespace", "default", "--kubeconfig", str(access.kubeconfig))
    return done.exit_code, done.stdout, done.stderr


def test_node_is_cleaned_up(control_plane: Access, node: str) -> None:
    """Said first, done then, and nothing is left to do a second time."""
    cluster = KubernetesCluster.from_kubeconfig("kubectl", control_plane.kubeconfig)
    before = cluster.get(NODE, node)
    code, said, _ = cleanup(control_plane, node, "--dry-run")
    assert (0, marks(before)) == (code, marks(cluster.get(NODE, node)))
    code, done, _ = cleanup(control_plane, node)
    assert (0, said.replace("would be done: ", "")) == (code, done)
    assert "it is uncordoned\n" in done
    assert f"label {GATE} is true again\n" in done
    after = cluster.get(NODE, node)
    assert [{"theirs": "stays", GATE: "true"}, {}] == marks(after)
    assert "unschedulable" not in after["spec"]
    assert (0, f"nothing of an agent is left on Node {node}\n", "") == cleanup(control_plane, node)


def test_agent_is_there(control_plane: Access, node: str) -> None:
    """The person is told how to let the agent do it."""
    cluster = KubernetesCluster.from_kubeconfig("kubectl", control_plane.kubeconfig)
    labels = {"app.kubernetes.io/name": "mig-manager", "app.kubernetes.io/component": "agent"}
    spec = {"nodeName": node, "containers": [{"name": "agent", "image": "agent"}]}
    cluster.create(POD, {"metadata": {"name": f"agent-{node}", "labels": labels}, "spec": spec}, "default")
    code, _, error = cleanup(control_plane, node)
    cluster.delete(POD, f"agent-{node}", "default", grace_s=0)
    assert 1 == code
    assert "is the agent of Node" in error
    assert "take the node out of its MIGConfig's nodeSelector" in error


def test_wrong_name(control_plane: Access) -> None:
    """A Node that is not there is bad input."""
    code, _, error = cleanup(control_plane, "no-such-node")
    assert 2 == code
    assert error.startswith("error: reading Node no-such-node: ")


def test_no_kubeconfig(tmp_path: Path) -> None:
    """Without a cluster the error says how to name one."""
    empty = tmp_path / "config"
    empty.write_text("")
    done = run("cleanup", "n1", "--kubeconfig", str(empty))
    assert 1 == done.exit_code
    assert "name a kubeconfig with --kubeconfig" in done.stderr


def test_without_the_right(control_plane: Access) -> None:
    """What the API server says is told, and no other kubeconfig is asked for."""
    stranger = control_plane.kubeconfig_for("stranger", ())
    done = run("cleanup", "n1", "--kubeconfig", str(stranger))
    assert 1 == done.exit_code
    assert 'nodes "n1" is forbidden' in done.stderr
    assert "--kubeconfig" not in done.stderr
