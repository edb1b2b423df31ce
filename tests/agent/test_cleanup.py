"""A person cleans up after an agent that was taken away in the middle of something."""

from __future__ import annotations

import pytest

from mig_manager.agent.cleanup import ATTEMPTS, AgentThereError, Cleanup, clean_up, cleanup_of
from mig_manager.agent.names import CORDONED, PAUSE_TAINT, STARTUP_TAINT
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.kube.memory import Call, MemoryCluster
from tests.agent.stories import Make, taken_out
from tests.agent.worlds import AGENT, NODE_NAME, PLUGIN_GATE, World

SELECTOR = "component=agent"


def found(w: World) -> Cleanup:
    return cleanup_of(MemoryCluster(w.store, AGENT), NODE_NAME, "mig-manager", SELECTOR)


def clean(w: World) -> tuple[str, ...]:
    cleanup = found(w)
    cleanup.carry_out(MemoryCluster(w.store, AGENT))
    return cleanup.words


@pytest.mark.parametrize("step", ["drain", "pause_clients"])
def test_everything_of_the_agent_goes(world: Make, step: str) -> None:
    """Cordon, pause, labels and the hold: nothing counts as taken out any more, and a second time there is nothing."""
    w = taken_out(world, step)
    words = clean(w)
    w.assert_clean()
    assert {} == w.labels
    assert ("Released", "Aborted", "CleanedUp") == tuple(w.grant_status[k] for k in ("state", "result", "reason"))
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    assert "it is uncordoned" in words
    assert "MIGNode n1: grant 1 is Released" in words
    paused = f"label {PLUGIN_GATE} is true again"
    assert (step == "pause_clients") is (paused in words)
    assert () == clean(w)


def test_mignode_says_that_nobody_is_there(world: Make) -> None:
    """What the agent said last is taken back, cards as they were last seen stay, and an agent that comes goes on."""
    w = taken_out(world, "drain")
    seen = w.status["gpus"]
    assert "MIGNode n1: its conditions are Unknown, CleanedUp" in clean(w)
    conditions = w.status["conditions"]
    assert [("Ready", "Unknown", "CleanedUp"), ("Degraded", "Unknown", "CleanedUp")] == [
        (c["type"], c["status"], c["reason"]) for c in conditions
    ]
    assert "no agent looks after this node" in conditions[0]["message"]
    assert ("", seen) == (w.status["step"], w.status["gpus"])
    assert "resources" not in w.status
    w.settle(2)
    assert {"False"} == {c["status"] for c in w.status["conditions"]}


def test_looking_changes_nothing(world: Make) -> None:
    """What would be done is said without doing it."""
    w = taken_out(world, "pause_clients")
    before = (w.node, w.mignode)
    assert found(w).words
    assert before == (w.node, w.mignode)


def test_cordon_of_a_person_stays(world: Make) -> None:
    """Only what is ours goes."""
    w = taken_out(world, "drain")
    w.uncordon()
    w.cordon()
    assert "it is uncordoned" not in clean(w)
    w.assert_clean()


def test_cordon_without_its_annotation_goes(world: Make) -> None:
    """Our name on the field tells it, as it does to the agent."""
    w = taken_out(world, "drain")
    w.admin.patch(NODE, NODE_NAME, {"metadata": {"annotations": {CORDONED: None}}})
    assert "it is uncordoned" in clean(w)
    w.assert_clean()


@pytest.mark.parametrize("ours", [(STARTUP_TAINT,), (PAUSE_TAINT,), (STARTUP_TAINT, PAUSE_TAINT)])
def test_our_taints_go(world: Make, ours: tuple[str, ...]) -> None:
    """Both of them, and no other, and each is named."""
    w = world("A100-PCIE-80GB")
    others = {"key": "theirs", "effect": "NoSchedule"}
    taints = [others, *({"key": taint, "effect": "NoSchedule"} for taint in ours)]
    w.admin.patch(NODE, NODE_NAME, {"spec": {"taints": taints}})
    assert tuple(f"taint {taint} is removed" for taint in ours) == clean(w)
    assert [others] == w.node["spec"]["taints"]


def test_agent_that_is_there_is_left_to_it(world: Make) -> None:
    """An agent's pod on the node, unless it has ended, cleans up by itself."""
    w = taken_out(world, "drain")
    pod = {
        "metadata": {"name": "agent", "labels": {"component": "agent"}},
        "spec": {"nodeName": NODE_NAME, "containers": [{"name": "a", "image": "a"}]},
    }
    w.admin.create(POD, pod, "mig-manager")
    with pytest.raises(AgentThereError, match="mig-manager/agent is the agent of Node n1"):
        found(w)
    w.admin.patch(POD, "agent", {"status": {"phase": "Failed"}}, "mig-manager", subresource="status")
    assert found(w).words


def test_node_that_is_not_there(world: Make) -> None:
    """A wrong name is an error, and nothing else."""
    w = world("A100-PCIE-80GB")
    with pytest.raises(NotFoundError):
        cleanup_of(w.admin, "n2", "mig-manager", SELECTOR)


def test_somebody_else_comes_first(world: Make) -> None:
    """What was decided on an older Node is not written on a newer one."""
    w = taken_out(world, "drain")
    cleanup = found(w)
    w.admin.patch(NODE, NODE_NAME, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ConflictError):
        cleanup.carry_out(w.admin)
    assert "Held" == w.grant_status["state"]


def test_node_that_changes_meanwhile_is_looked_at_anew(world: Make) -> None:
    """A Node's heartbeat does not stop a cleanup; one that changes at every try does, with nothing done."""
    w = taken_out(world, "drain")
    changes = iter(range(100))
    quiet = ["a"]

    def change(call: Call) -> None:
        if call.verb == "get" and call.kind is NODE and quiet:
            quiet.pop()
            w.admin.patch(NODE, NODE_NAME, {"metadata": {"labels": {"a": str(next(changes))}}})

    cluster = MemoryCluster(w.store, AGENT, after=change)
    assert "it is uncordoned" in clean_up(cluster, NODE_NAME, "mig-manager", SELECTOR).words
    w.assert_clean()
    w.cordon()
    w.admin.patch(NODE, NODE_NAME, {"metadata": {"labels": {"migmanager.io/state": "updating"}}})
    quiet += "a" * ATTEMPTS
    with pytest.raises(ConflictError):
        clean_up(cluster, NODE_NAME, "mig-manager", SELECTOR)


def test_mignode_of_an_earlier_node_is_left_alone(world: Make) -> None:
    """It is not this Node's, and garbage collection takes it; one without a hold has nothing to be released."""
    w = taken_out(world, "drain")
    w.replace_node()
    cleanup = found(w)
    assert cleanup.mignode is None
    assert not [words for words in cleanup.words if "Released" in words]
    w.admin.delete(MIG_NODE, NODE_NAME)
    assert found(w).mignode is None
