"""Whose cordon it is, and what happens when people lift it."""

from __future__ import annotations

import json

from mig_manager.agent.names import CORDONED
from mig_manager.kube.kinds import NODE
from tests.agent.moments import once
from tests.agent.process import Process
from tests.agent.stories import CUT, TARGET, Make, advance, blocked, granted, guard, versions
from tests.agent.worlds import A100, World


def test_persons_cordon_stays(world: Make) -> None:
    """A node that somebody else cordoned is cut too, and stays cordoned by him alone."""
    w = world(A100, cut=CUT)
    w.cordon()
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert not any(CORDONED in (v["metadata"].get("annotations") or {}) for v in versions(w, 0, NODE))
    w.assert_clean()


def test_uncordoned_before_the_first_destroy(world: Make) -> None:
    """Somebody uncordons while pods are waited for: given up, with time before the next attempt."""
    w = blocked(world)
    w.uncordon()
    assert "stand_down: Uncordoned" == w.settle(1)[-1]
    assert ("Aborted", "Uncordoned") == (w.grant_status["result"], w.grant_status["reason"])
    assert w.grant_status["notBefore"]
    w.assert_clean()


def test_uncordoned_and_cordoned_again_by_a_person(world: Make) -> None:
    """His cordon is not taken for ours, whatever our annotation says."""
    w = blocked(world)
    w.uncordon()
    w.cordon()
    w.run_pass()
    assert CORDONED not in w.annotations
    w.revoke()
    w.settle(5)
    assert w.node["spec"]["unschedulable"]
    w.assert_clean()


def test_node_whose_fields_are_not_tracked(world: Make) -> None:
    """Where nobody could tell our cordon from a person's we make none."""
    w = granted(world)
    w.store.find((NODE, None, "n1"))["metadata"].pop("managedFields")  # type: ignore[index]
    assert "take_up: OwnershipUnknown" == w.settle(1)[-1]
    w.cordon()
    assert "release: Done" == w.settle()[-1]
    assert w.node["spec"]["unschedulable"]


def test_untracked_node_that_is_uncordoned_in_mid_flight(world: Make) -> None:
    """A person's cordon that goes on such a node is not replaced by one that nobody could lift: the node is let go."""
    w = granted(world, drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    guard(w)
    w.store.find((NODE, None, "n1"))["metadata"].pop("managedFields")  # type: ignore[index]
    w.cordon()
    advance(w, "drain")
    w.uncordon()
    ended = w.settle(20, seconds=5)
    assert "cordon: OwnershipUnknown" == ended[0]
    assert "stand_down: DrainTimeout" in ended
    w.assert_clean()


def test_cordon_of_a_person_in_the_very_moment(world: Make) -> None:
    """Our cordon is for the Node that was read: one that somebody has cordoned since is his, and stays so."""
    w = granted(world)
    _, ending = once(w, lambda p: p.step == "cordon" and p.names[-1] == "patch Node", World.cordon)
    assert ("cordon", "Conflict") == (ending.step, getattr(ending.result, "reason", ""))
    assert CORDONED not in w.annotations
    assert "release: Done" == w.settle()[-1]
    assert w.node["spec"]["unschedulable"]


def test_cordon_says_for_which_grant_and_what_the_node_is(world: Make) -> None:
    """Note and label are in the patch that closes the node."""
    w = granted(world)
    found: list[object] = []
    process = Process()

    def look() -> None:
        if w.node["spec"].get("unschedulable") and not found:
            note = json.loads(w.annotations[CORDONED])
            found.extend([note["grant"] == w.grant_status["id"], w.labels["state"]])

    process.look = look
    w.run_pass(process)
    assert [True, "updating"] == found
