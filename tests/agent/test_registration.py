"""A Node that is registered, or registered anew, and MIGNodes that are not meant for it."""

from __future__ import annotations

from mig_manager.agent.names import STARTUP_TAINT
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from tests.agent.layouts import every
from tests.agent.stories import TARGET, Make, blocked, granted
from tests.agent.worlds import A100


def test_node_recreated_in_the_middle(world: Make) -> None:
    """The Node is registered anew while we drain: nothing is ours there, and its new MIGNode begins without a grant."""
    w = blocked(world)
    w.replace_node()
    w.run_pass()
    w.assert_clean()
    assert {} == w.labels
    w.admin.delete(MIG_NODE, "n1")
    w.want(TARGET)
    w.end("goes")
    w.tick()
    w.run_pass()
    w.grant()
    w.settle()
    assert ("True", "Ready") == w.ready


def test_mignode_of_another_node_is_not_ours(world: Make) -> None:
    """A MIGNode that names another Node's uid is neither obeyed nor answered."""
    w = granted(world)
    w.admin.patch(MIG_NODE, "n1", {"spec": {"nodeUID": "another"}})
    before = w.mignode
    assert "take_up: NoMIGNode" == w.settle(2)[-1]
    assert before == w.mignode


def test_unknown_schema(world: Make) -> None:
    """A MIGNode of another agreement is refused, and what was ours is given back."""
    w = blocked(world)
    w.admin.patch(MIG_NODE, "n1", {"spec": {"schema": 2}})
    assert "take_up: UnknownSchema" == w.settle(3)[-1]
    assert ("False", "UnknownSchema") == w.ready
    w.assert_clean()


def test_no_such_node(world: Make) -> None:
    """Without the Node nothing is done."""
    w = world(A100)
    w.admin.delete(NODE, "n1")
    assert "observe: NodeMissing" == w.settle(1)[-1]


def test_startup_taint(world: Make) -> None:
    """The taint of the node's registration goes when the layout is there and advertised, not before."""
    w = world(A100, cut=(("7g", 0),))
    w.plugin_tolerates = True
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    w.want(TARGET)
    w.settle(3)
    assert STARTUP_TAINT in [t["key"] for t in w.node["spec"]["taints"]]
    w.grant()
    w.settle()
    assert [] == w.node["spec"].get("taints", [])


def test_startup_taint_of_a_node_that_is_right_already(world: Make) -> None:
    """Where nothing is to be done the taint goes as well, once the kubelet offers everything."""
    w = world(A100, cut=(("7g", 0),))
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    plugin = w.plugin()
    assert plugin is not None
    w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
    w.tick()
    w.want(every("7g"))
    w.settle(4, control=True)
    assert ("False", "ClientsDoNotTolerateTaint") == w.ready
    w.plugin_tolerates = True
    w.settle(4)
    assert [] == w.node["spec"].get("taints", [])
    assert ("True", "Ready") == w.ready
