"""Counts and conditions of a pool: every node counts once, and the reasons are those of its nodes."""

# ruff: noqa: ANN401 - fields of records are passed on
from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mig_manager.api.conditions import conditions_from_list
from mig_manager.controller.desire import Wishes
from mig_manager.controller.records import ConfigRecord, NodeRecord
from mig_manager.controller.summarise import GROUPS, Standing, standing, status
from mig_manager.controller.views import View
from mig_manager.wording import MESSAGE_LIMIT
from tests.controller.builders import (
    DONE,
    LATER,
    NOON,
    NOT_READY,
    answer,
    budget,
    config,
    grant,
    node,
    obstructed,
    plan,
    view,
    wish,
)

APPLIED: dict[str, Any] = {"grant": grant(slot=True), "state": answer(), "plan": DONE}
TRIED: dict[str, Any] = {"grant": grant(slot=True)}
SILENT: dict[str, Any] = {"agent": "NoAgent", "silent_s": 60}
TOLD: dict[str, Any] = {"told_generation": 5, "reason": "JournalError"}
UNANSWERED: dict[str, Any] = {"agent": "AgentNotResponding", "silent_s": 60}


def record(pool: Any = None, **changes: Any) -> ConfigRecord:
    values: dict[str, Any] = {"generation": 2, "error": "", "observed_generation": 0, "nodes": {}, "conditions": ()}
    return ConfigRecord("pool", "uid", **{**values, "wishes": Wishes(pool or config()), **changes})


@pytest.mark.parametrize(
    ("seen", "group", "reason"),
    [
        (view(node(unreadable="schema 2", reason="UnknownSchema")), "blocked", "UnknownSchema"),
        (view(**SILENT), "blocked", "NoAgent"),
        (view(agent="AgentNotResponding", silent_s=60), "blocked", "AgentNotResponding"),
        (view(agent="NoAgent", silent_s=59), "pending", "Waiting"),
        (view(node(**APPLIED, ready=True), **SILENT), "ready", "Ready"),
        (view(node(grant=grant(slot=True), state=answer(1, "Held")), **SILENT), "blocked", "NoAgent"),
        (view(node(grant=grant(slot=True))), "updating", "Updating"),
        (view(node(grant=grant(slot=True), state=answer(1, "Held"))), "updating", "Updating"),
        (view(node(grant=grant(), state=answer(1, "Repairing"))), "updating", "Updating"),
        (View(node(), wish("typo")), "blocked", "UnknownProfile"),
        (view(node(plan=plan(reason="LayoutDoesNotFit"))), "blocked", "LayoutDoesNotFit"),
        (view(node(plan=replace(plan(), impact=None))), "blocked", "NotFeasible"),
        (view(node(plan=plan(impact="RebootNode"))), "blocked", "ImpactNotAllowed"),
        (view(node(plan=obstructed())), "blocked", "DaemonSetPod"),
        (view(node(plan=obstructed("RebootNode"))), "blocked", "ImpactNotAllowed"),
        (view(node(grant=grant(slot=True, revoked=True), plan=obstructed())), "blocked", "DaemonSetPod"),
        (view(node(plan=None)), "pending", "Planning"),
        (view(node(plan=None, **TOLD, generation=6)), "pending", "Planning"),
        (view(node(plan=None, **TOLD)), "blocked", "JournalError"),
        (view(node(**TOLD, observed_generation=4), **UNANSWERED), "blocked", "JournalError"),
        (view(node(**TOLD, observed_generation=4, generation=6), **UNANSWERED), "blocked", "AgentNotResponding"),
        (view(node(**TOLD), **UNANSWERED), "blocked", "AgentNotResponding"),
        (view(), "pending", "Waiting"),
        (view(node(plan=DONE)), "pending", "Acknowledging"),
        (view(node(**APPLIED, reason="NotAdvertised")), "blocked", "NotAdvertised"),
        (view(node(**APPLIED)), "blocked", "NotReady"),
        (view(node(**APPLIED, ready=True)), "ready", "Ready"),
        (view(node(**APPLIED, ready=True), outage=NOT_READY), "blocked", "NodeUnavailable"),
        (view(node(**TRIED, state=answer(1, "Released", "Failed", reason="CreateFailed"))), "failed", "CreateFailed"),
        (view(node(**TRIED, state=answer(1, "Released", "RolledBack"))), "failed", "RolledBack"),
        (
            view(node(**TRIED, state=answer(1, "Released", "Aborted", reason="DrainTimeout", not_before=LATER))),
            "blocked",
            "DrainTimeout",
        ),
        (view(node(**TRIED, state=answer(1, "Released", "Aborted"))), "pending", "Waiting"),
        (view(node(grant=grant(1, "all-2g"), state=answer(1, "Released", "Failed"))), "pending", "Waiting"),
    ],
)
def test_what_a_node_counts_as(seen: View, group: str, reason: str) -> None:
    """Every state of a node has one group and one reason."""
    found = standing(seen, config(), NOON)
    assert (group, reason) == (found.group, found.reason)


def test_waiting_in_a_paused_pool() -> None:
    """A node that waits says what for."""
    assert "Paused" == standing(view(), config(paused=True), NOON).reason


def standings(**counts: int) -> list[Standing]:
    """So many nodes of each group, with reasons and messages."""
    return [
        Standing(f"{group}{number}", group, group.title(), "" if group == "ready" else "text")
        for group in GROUPS
        for number in range(counts.get(group, 0))
    ]


def conditions(found: list[Standing], of: ConfigRecord | None = None) -> dict[str, tuple[str, str, str]]:
    made = status(of or record(), found, NOON)
    assert made is not None
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in made["conditions"]}


@pytest.mark.parametrize(
    ("counts", "ready", "progressing", "degraded"),
    [
        ({}, ("False", "NoNodes"), ("False", "Idle"), ("False", "AsExpected")),
        ({"ready": 1}, ("True", "Ready"), ("False", "Idle"), ("False", "AsExpected")),
        ({"ready": 1, "updating": 1, "failed": 1}, ("False", "Updating"), ("True", "Updating"), ("True", "Failed")),
        ({"failed": 1, "blocked": 1}, ("False", "Failed"), ("False", "Idle"), ("True", "SeveralReasons")),
        ({"ready": 3, "blocked": 1, "pending": 1}, ("False", "Blocked"), ("True", "Pending"), ("True", "Blocked")),
        ({"ready": 3, "pending": 1}, ("False", "Pending"), ("True", "Pending"), ("False", "AsExpected")),
    ],
)
def test_conditions(
    counts: dict[str, int], ready: tuple[str, str], progressing: tuple[str, str], degraded: tuple[str, str]
) -> None:
    """Ready tells what matters most; Progressing and Degraded are independent of each other."""
    found = conditions(standings(**counts))
    expected = {"Ready": ready, "Progressing": progressing, "Degraded": degraded}
    assert expected == {kind: value[:2] for kind, value in found.items()}


def test_message_tells_of_those_that_cannot_go_on_too() -> None:
    """While some nodes are being changed the same line says that others have failed or are blocked, and why."""
    found = conditions(
        [
            Standing("n1", "updating", "Updating", "draining"),
            Standing("n2", "blocked", "NoAgent", "no agent runs there"),
            Standing("n3", "failed", "GpuError", "no room"),
            Standing("n4", "pending"),
        ]
    )
    told = "n1 (Updating: draining); n3 (GpuError: no room); n2 (NoAgent: no agent runs there)"
    assert ("False", "Updating", f"0 of 4 nodes have their layout; {told}") == found["Ready"]


def test_outage_is_said() -> None:
    """A node that has its layout and takes no pods all the same: whether it is down, or somebody has cordoned it."""
    outages = [NodeRecord("n", "uid", {}, ready=up, cordoned=True).outage for up in (False, True)]
    there = node(**APPLIED, ready=True)
    told = [standing(view(there, outage=outage), config(), NOON).message for outage in outages]
    assert [NOT_READY, "somebody else has cordoned the Node"] == told


def test_a_paused_pool() -> None:
    """Nodes that wait in a paused pool do not count as progress."""
    found = conditions(standings(pending=2), record(config(paused=True)))
    assert ("False", "Paused", "2 nodes waiting for spec.paused to be false") == found["Progressing"]
    assert ("False", "Paused") == found["Ready"][:2]


def test_a_config_that_cannot_be_read() -> None:
    """Its error is the reason of everything."""
    broken = record(wishes=None, error="InvalidSpec: spec.profile: 17 is not text")
    found = conditions([], broken)
    assert ("False", "InvalidSpec", "spec.profile: 17 is not text") == found["Ready"]
    assert ("True", "InvalidSpec", "spec.profile: 17 is not text") == found["Degraded"]
    assert ("False", "Idle") == conditions(standings(pending=0), broken)["Progressing"][:2]


def test_messages_name_three_nodes() -> None:
    """Three by name, in order, those that share a reason together; the others are counted."""
    mixed = [
        *(Standing(f"n{number}", "blocked", "NoAgent", "no agent runs there") for number in (7, 1, 3)),
        *(Standing(f"n{number}", "blocked", "Other", "") for number in (2, 4, 5, 6)),
    ]
    expected = "n1, n3 (NoAgent: no agent runs there), n2 (Other) and 4 more"
    assert expected == conditions(mixed)["Degraded"][2]


def test_the_size_does_not_grow_with_the_pool() -> None:
    """5,000 nodes with long messages make a status that is no larger than that of five."""
    found = [Standing(f"n{number}" * 20, "blocked", "Other", f"{number}" * 500) for number in range(5000)]
    assert all(len(message) <= MESSAGE_LIMIT for _, _, message in conditions(found).values())


def test_every_node_is_counted_once() -> None:
    """The groups add up to the total."""
    made = status(record(), standings(ready=5, updating=1, pending=2, blocked=3, failed=4), NOON)
    assert made is not None
    assert {"total": 15, "ready": 5, "updating": 1, "pending": 2, "blocked": 3, "failed": 4} == made["nodes"]


def written(found: list[Standing]) -> ConfigRecord:
    """The pool with that status written."""
    made = status(record(), found, NOON)
    assert made is not None
    return record(
        observed_generation=made["observedGeneration"],
        nodes=made["nodes"],
        conditions=conditions_from_list(made["conditions"]),
    )


def test_an_unchanged_status_is_not_written() -> None:
    """Not later either; a new generation, other counts or another message are written."""
    before, later = standings(ready=1, pending=1), NOON + timedelta(hours=1)
    known = written(before)
    assert status(known, before, later) is None
    assert status(replace(known, generation=3), before, later) is not None
    assert status(known, standings(ready=2, pending=1), later) is not None
    assert status(known, [before[0], replace(before[1], message="other")], later) is not None


def test_the_time_of_a_transition() -> None:
    """LastTransitionTime changes with the value, not with reason or message."""
    later = NOON + timedelta(hours=1)
    made = status(written(standings(ready=1, pending=1)), standings(ready=1, blocked=1), later)
    assert made is not None
    times = {c["type"]: c["lastTransitionTime"] for c in made["conditions"]}
    noon, one = "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"
    assert {"Ready": noon, "Progressing": one, "Degraded": one} == times


def test_max_impact_is_told() -> None:
    """What it would take, and what is allowed."""
    found = standing(view(node(plan=plan())), config(disruption=budget(1, max_impact="None")), NOON)
    assert ("ImpactNotAllowed", "it takes EvictPods, and maxImpact is None") == (found.reason, found.message)


def test_what_the_agent_says_of_the_limit_is_told() -> None:
    """It knows why so much is needed; what is in the way although the limit allows it is said too."""
    why = "it takes RebootNode (a reset was refused), and maxImpact is EvictPods"
    beyond = replace(plan(impact="RebootNode"), reason="ImpactNotAllowed", message=why)
    found = standing(view(node(plan=beyond)), config(), NOON)
    assert ("blocked", "ImpactNotAllowed", why) == (found.group, found.reason, found.message)
