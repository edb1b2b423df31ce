"""Our marks on a Node, annotations and labels, when somebody removes or damages them while the node is taken out."""

from __future__ import annotations

import pytest

from mig_manager.agent.names import CORDONED, PAUSED, PAUSED_WORD
from mig_manager.kube.kinds import NODE
from tests.agent.stories import TARGET, Make, taken_out
from tests.agent.worlds import A100, PLUGIN_GATE, World


def annotate(w: World, name: str, value: str | None) -> None:
    """A person writes or removes an annotation."""
    w.admin.patch(NODE, "n1", {"metadata": {"annotations": {name: value}}})


def test_cordon_without_its_annotation_is_still_ours(world: Make) -> None:
    """Without the annotation our cordon is told by its owner, gets the annotation back, and is lifted in the end."""
    w = taken_out(world, "drain")
    annotate(w, CORDONED, None)
    w.run_pass()
    assert CORDONED in w.annotations
    w.revoke()
    w.settle(5)
    assert not w.node["spec"].get("unschedulable")
    w.assert_clean()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "garbage",
        "7",
        "{}",
        '{"labels": {"a": 1}, "taint": false, "restart": []}',
        '{"labels": {}, "taint": false, "restart": [{}]}',
    ],
)
def test_pause_without_a_readable_annotation_is_ended(world: Make, text: str | None) -> None:
    """Clients that bear our word come back, whatever somebody made of the annotation that records the pause."""
    w = taken_out(world, "pause_clients")
    assert PAUSED_WORD == w.node["metadata"]["labels"][PLUGIN_GATE]
    annotate(w, PAUSED, text)
    assert "release: Done" == w.settle()[-1]
    assert "true" == w.node["metadata"]["labels"][PLUGIN_GATE]
    assert PAUSED not in w.annotations
    w.assert_clean()


def test_pause_taint_without_its_annotation_is_taken_off(world: Make) -> None:
    """The taint that keeps clients away is ours by its name."""
    w = world(A100, cut=(("1g", 0), ("2g", 2), ("3g", 4)), gated=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    w.run_pass()
    annotate(w, PAUSED, None)
    assert "release: Done" == w.settle()[-1]
    assert not w.node["spec"].get("taints")
    w.assert_clean()


def test_damaged_record_of_a_pause_on_a_node_that_is_not_held_is_removed(world: Make) -> None:
    """A forged annotation pauses nothing, stops no pass, and goes."""
    w = world(A100)
    w.want(TARGET)
    annotate(w, PAUSED, "garbage")
    w.settle(5)
    assert PAUSED not in w.annotations
    assert ("False", "WaitingForTurn") == w.ready
