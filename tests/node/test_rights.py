"""What the less usual rights of agent and controller are for, each by a scenario that takes it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mig_manager.kube.kinds import DAEMON_SET, MIG_NODE
from tests.e2e.layouts import NARROW, WIDE
from tests.node.audit import Audit, granted
from tests.node.cluster import WORK, RealCluster
from tests.node.real import RealNode
from tests.node.stories import MORE_PROFILES, cut
from tests.node.workloads import pod_spec

TWO = {"1g.10gb": 2}
MORE = {**MORE_PROFILES, "two": {"gpus": [{"slices": [{"slice": "1g.10gb", "count": 2}]}]}}

READ_AGAIN = ("controller", "migmanager.io", "mignodes", "get")


def test_a_right_that_nobody_takes_is_noticed(tmp_path: Path) -> None:
    """What the audit log does not have is reported, and so is a request that was refused."""
    *taken, idle = sorted(granted())
    log = [_logged(*right, code=200) for right in taken]
    (tmp_path / "audit.log").write_text("\n".join([*log, _logged(*idle, code=403)]))
    audit = Audit(tmp_path)
    assert [idle] == audit.unused()
    assert [f"403: {' '.join(idle)} /x"] == audit.refused()


def _logged(account: str, group: str, resource: str, verb: str, *, code: int) -> str:
    """A line of the API server's audit log."""
    kind, _, inner = resource.partition("/")
    about = {"resource": kind, "subresource": inner, "apiGroup": group}
    user = {"username": f"system:serviceaccount:mig-manager:{account}"}
    return json.dumps(
        {"user": user, "verb": verb, "objectRef": about, "requestURI": "/x", "responseStatus": {"code": code}}
    )


@contextmanager
def taking(cluster: RealCluster, *right: str) -> Iterator[None]:
    """In this block the right is used; AssertionError when nobody does."""
    account, group, resource, verb = right
    before = cluster.audit.used()[account, group, resource, verb]
    yield
    assert cluster.audit.used()[account, group, resource, verb] > before, f"nobody used {right}"


def test_a_plugin_that_offers_what_is_gone(cluster: RealCluster, node: RealNode) -> None:
    """Somebody moves a slice by hand: the agent starts the device plugin, which looks at its start only, anew."""
    cluster.config("two", profiles=MORE)
    cluster.finished(node, TWO)
    (plugin,) = cluster.plugin_pods(node)
    first = min(instance.start for instance in node.machine.card(0).instances)
    with node.machine.change() as state:
        (going,) = [i for i in state.cards[0].instances if i.start == first]
        state.cards[0].instances.remove(going)
    node.machine.add_instance(0, "1g.10gb", start=_free_start(node, first))

    with taking(cluster, "agent", "", "pods", "delete"):
        cluster.until("another plugin", lambda: _uids(cluster, node) - {plugin["metadata"]["uid"]})
    cluster.finished(node, TWO)
    cluster.pod("p", "mig-1g.10gb")
    cluster.running("p")


def _free_start(node: RealNode, taken: int) -> int:
    """A place for a small slice that is free, and was before."""
    used = {instance.start for instance in node.machine.card(0).instances} | {taken}
    return next(start for start in range(7) if start not in used)


def _uids(cluster: RealCluster, node: RealNode) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.plugin_pods(node)}


def test_a_pod_of_a_daemon_set(cluster: RealCluster, node: RealNode) -> None:
    """With consent to evict what nobody makes anew the agent asks whether the DaemonSet is there: then it would."""
    cut(cluster, node, disruption={"drain": {"force": True}})
    spec: dict[str, Any] = {**pod_spec("mig-3g.40gb", count=2), "nodeSelector": {"kubernetes.io/hostname": node.name}}
    labels = {"app": "everywhere"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"metadata": {"name": "everywhere"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    cluster.person.create(DAEMON_SET, body, WORK)
    cluster.until("it to run", lambda: cluster.using(node, "everywhere") == 1)
    before = cluster.held(node)
    with taking(cluster, "agent", "apps", "daemonsets", "get"):
        cluster.edit(profile="narrow")
        cluster.until("the node to be blocked", lambda: cluster.reason(node) == "DaemonSetPod")
    assert (before, WIDE) == (cluster.held(node), node.counts())
    cluster.person.delete(DAEMON_SET, "everywhere", WORK)
    cluster.finished(node, NARROW)


def test_a_node_that_registers_anew(cluster: RealCluster, node: RealNode) -> None:
    """Where the MIGNode outlives its Node, the controller makes another one for the new Node, and all is as before."""
    cut(cluster, node)
    with taking(cluster, "controller", "", "nodes", "get"):
        _register_anew(cluster, node)
    cluster.finished(node, WIDE)


def _register_anew(cluster: RealCluster, node: RealNode) -> None:
    """Delete the Node and leave what it owns; the MIGNode is the new Node's on return."""
    before = cluster.node(node)["metadata"]["uid"]
    cluster.kubectl("delete", "node", node.name, "--cascade=orphan")
    node.kill("kubelet")
    cluster.until("the new Node", lambda: cluster.node(node)["metadata"]["uid"] != before)
    uid = cluster.node(node)["metadata"]["uid"]
    cluster.until("its MIGNode", lambda: cluster.person.get(MIG_NODE, node.name)["spec"]["nodeUID"] == uid)


def test_writes_that_collide(cluster: RealCluster, node: RealNode) -> None:
    """Somebody writes to the MIGNode all the time: the controller reads it again, decides again, and gets through."""
    cut(cluster, node)
    before, wishes = cluster.audit.used()[READ_AGAIN], itertools.cycle(["narrow", "wide"])

    def collided() -> bool:
        cluster.edit(profile=next(wishes))
        for count in range(100):
            cluster.person.patch(MIG_NODE, node.name, {"metadata": {"annotations": {"count": str(count)}}})
        return cluster.audit.used()[READ_AGAIN] > before

    cluster.until("the controller to read it again", collided)
    cluster.edit(profile="narrow")
    cluster.finished(node, NARROW)
