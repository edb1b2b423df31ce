"""MIGConfig and MIGNode are read and written without loss."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from mig_manager.api.conditions import Condition, carried_over, conditions_from_list, format_time, parse_time
from mig_manager.api.migconfig import Disruption, Drain, MIGConfig
from mig_manager.api.mignode import Desired, Grant, MIGNode, MIGNodeSpec
from mig_manager.api.mignode_status import MIGNodeStatus
from mig_manager.api.schema import object_problems
from mig_manager.api.selector import LabelSelector, Requirement
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode
from tests.api.examples import LAYOUT, NOON, SPEC, STATUS, VALID, Case, mignode


def test_a_small_migconfig() -> None:
    """What is not said has the defaults of the schema, which the dataclasses share."""
    expected = MIGConfig("pool", LabelSelector((("pool", "a"),)), "all-balanced")
    assert expected == MIGConfig.from_dict(VALID)


def test_a_full_migconfig() -> None:
    """Everything that is said arrives."""
    spec = {
        "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]},
        "profile": "off",
        "nodeProfileLabel": "nvidia.com/mig.config",
        "profiles": {"off": {"gpus": [{"mig": "Disabled"}]}},
        "devicePluginStrategy": "None",
        "disruption": {
            "maxUnavailable": "10%",
            "maxImpact": "FreeSlices",
            "drain": {"timeoutSeconds": 5, "gracePeriodSeconds": 1},
        },
        "rollback": "Never",
        "paused": True,
    }
    obj = Case("", spec).object
    obj["metadata"]["generation"] = 4
    expected = MIGConfig(
        name="pool",
        node_selector=LabelSelector((), (Requirement("pool", "In", ("a", "b")),)),
        profile="off",
        generation=4,
        node_profile_label="nvidia.com/mig.config",
        profiles={"off": Layout((GpuEntry(mig=MigMode.DISABLED),), "off")},
        strategy="None",
        disruption=Disruption("10%", "FreeSlices", Drain(5, "Abort", 1)),
        rollback="Never",
        paused=True,
    )
    assert expected == MIGConfig.from_dict(obj)


def test_an_invalid_migconfig() -> None:
    """Reading validates."""
    with pytest.raises(LayoutError, match=r"spec\.paused"):
        MIGConfig.from_dict(Case("", {"paused": 1}).object)


@pytest.mark.parametrize(
    ("max_unavailable", "nodes", "budget"),
    [(3, 100, 3), (3, 1, 3), ("10%", 100, 10), ("10%", 19, 1), ("10%", 5, 1), ("100%", 7, 7), ("29%", 100, 29)],
)
def test_budgets(max_unavailable: int | str, nodes: int, budget: int) -> None:
    """A percentage is rounded down, but one node may always be out."""
    assert budget == Disruption(max_unavailable).budget(nodes)


@pytest.mark.parametrize(
    ("requirement", "labels", "met"),
    [
        (Requirement("a", "In", ("x", "y")), {"a": "y"}, True),
        (Requirement("a", "In", ("x", "y")), {"a": "z"}, False),
        (Requirement("a", "In", ("x", "y")), {}, False),
        (Requirement("a", "NotIn", ("x",)), {"a": "y"}, True),
        (Requirement("a", "NotIn", ("x",)), {"a": "x"}, False),
        (Requirement("a", "NotIn", ("x",)), {}, True),
        (Requirement("a", "Exists"), {"a": ""}, True),
        (Requirement("a", "Exists"), {"b": ""}, False),
        (Requirement("a", "DoesNotExist"), {"a": ""}, False),
        (Requirement("a", "DoesNotExist"), {}, True),
    ],
)
def test_requirements(requirement: Requirement, labels: dict[str, str], met: bool) -> None:
    """Labels meet a requirement as Kubernetes understands it."""
    assert met == requirement.met_by(labels)


def test_selectors_need_all_their_terms() -> None:
    """A selector holds if every label and every requirement holds."""
    selector = LabelSelector((("a", "x"), ("b", "y")), (Requirement("c", "Exists"),))
    assert selector.matches({"a": "x", "b": "y", "c": "", "d": ""})
    assert not selector.matches({"a": "x", "b": "z", "c": ""})
    assert not selector.matches({"a": "x", "b": "y"})


def test_a_mignode_is_written_and_read_again() -> None:
    """Both halves come back equal, and what is written passes the schema."""
    written = mignode(SPEC.to_dict(), STATUS.to_dict())
    assert [] == list(object_problems(written, "MIGNode"))
    assert MIGNode("n1", "u", "77", 9, SPEC, STATUS) == MIGNode.from_dict(written)


def test_an_empty_mignode() -> None:
    """A MIGNode whose node left its pool and whose agent has not spoken yet."""
    spec = MIGNodeSpec("1234-uid")
    written = mignode(spec.to_dict())
    assert [] == list(object_problems(written, "MIGNode"))
    assert MIGNode("n1", "u", "77", 9, spec, MIGNodeStatus()) == MIGNode.from_dict(written)
    assert [] == list(object_problems(mignode(spec.to_dict(), MIGNodeStatus().to_dict()), "MIGNode"))


def test_defaults_of_a_grant_are_those_of_the_schema() -> None:
    """A grant that says only what it must is read as the API server would fill it in."""
    grant = {"id": 1, "by": "c", "hash": "h", "layout": {"gpus": [{"slices": [{"slice": "1g", "count": "max"}]}]}}
    assert Grant(1, "c", "h", Layout(LAYOUT.gpus)) == Grant.from_dict(grant)


def test_a_wish_without_a_layout() -> None:
    """An unknown profile leaves the wish without a layout, and says why."""
    desired = Desired("pool", 3, "allbalanced", "", error="UnknownProfile: no profile is called 'allbalanced'")
    written = MIGNodeSpec("u", desired).to_dict()
    assert [] == list(object_problems(mignode(written), "MIGNode"))
    assert desired == MIGNodeSpec.from_dict(written).desired


def test_unknown_status_fields_are_skipped() -> None:
    """An agent of a later release may say more than this program understands."""
    later = STATUS.to_dict() | {"mood": "good"}
    later["grant"] |= {"mood": "good"}
    later["gpus"][0] |= {"mood": "good"}
    assert STATUS == MIGNodeStatus.from_dict(later)


@pytest.mark.parametrize("schema", [2, 0, None, "1"])
def test_another_agreement_is_refused(schema: object) -> None:
    """A spec under an agreement that this program does not know is not guessed at."""
    with pytest.raises(LayoutError, match=r"spec\.schema: .* is not a version that this program knows") as caught:
        MIGNode.from_dict(mignode({**SPEC.to_dict(), "schema": schema}))
    assert "UnknownSchema" == caught.value.reason


def test_deletion_is_seen() -> None:
    """A MIGNode that is being deleted says so."""
    obj = mignode(SPEC.to_dict())
    assert not MIGNode.from_dict(obj).deleting
    obj["metadata"]["deletionTimestamp"] = "2026-03-04T12:00:00Z"
    assert MIGNode.from_dict(obj).deleting


def test_times_are_utc_to_the_second() -> None:
    """Times are written as Kubernetes writes them, whatever zone they came in."""
    there = (NOON + timedelta(milliseconds=900)).astimezone(timezone(timedelta(hours=2)))
    assert "2026-03-04T12:00:00Z" == format_time(there)
    assert NOON == parse_time("2026-03-04T12:00:00Z")
    assert (None, None) == (format_time(None), parse_time(None))


def test_foreign_conditions() -> None:
    """A condition that somebody wrote without observedGeneration is read."""
    item = {"type": "A", "status": "True", "reason": "B", "message": "", "lastTransitionTime": "2026-03-04T12:00:00Z"}
    assert (Condition("A", "True", "B", "", NOON),) == conditions_from_list([item])


def test_a_condition_keeps_its_time_while_it_stays() -> None:
    """A condition whose status is unchanged has held since it first did, whatever reason it has now."""
    later = NOON + timedelta(hours=1)
    former = (Condition("Ready", "False", "A", "a", NOON), Condition("Degraded", "False", "A", "a", NOON))
    current = (
        Condition("Ready", "False", "B", "b", later),
        Condition("Degraded", "True", "B", "b", later),
        Condition("Progressing", "True", "B", "b", later),
    )
    assert [NOON, later, later] == [c.since for c in carried_over(former, current)]
    assert ["B", "B", "B"] == [c.reason for c in carried_over(former, current)]
