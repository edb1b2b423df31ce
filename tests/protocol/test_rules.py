"""Every rule of the grant protocol prevents something: without it the search finds the violation named here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from tests.protocol.explorer import explore
from tests.protocol.rules import ALL_RULES, Rules
from tests.protocol.shared import Scope
from tests.protocol.state import Fault, Violation


@dataclass(frozen=True)
class Case:
    """The smallest search that shows what happens without a rule, and after how many steps at the soonest."""

    rule: str
    violation: Violation
    steps: int
    scope: Scope


def scope(*kinds: Fault, faults: int = 1, pods: bool = False, pause: bool = False, edit: bool = True) -> Scope:
    return Scope(("B",) if edit else (), faults if kinds else 0, frozenset(kinds), pause=pause, pods=pods)


CASES = (
    # A second node is taken out.
    Case("held_before_cordon", Violation.TWO_OUT, 14, scope(Fault.LEASE_LOST)),
    Case("held_on_version_read", Violation.TWO_OUT, 18, scope(Fault.LEASE_LOST)),
    Case("leader_checked", Violation.TWO_OUT, 17, scope(Fault.LEASE_LOST)),
    Case("former_leaders_grants_revoked", Violation.TWO_OUT, 19, scope(Fault.LEASE_LOST)),
    Case("list_after_lease", Violation.TWO_OUT, 17, scope(Fault.LEASE_LOST)),
    Case("own_writes_seen", Violation.TWO_OUT, 17, scope(Fault.LEASE_LOST)),
    Case("released_is_spent", Violation.TWO_OUT, 20, scope()),
    Case("released_last", Violation.TWO_OUT, 18, scope()),
    Case("slotless_only_if_unavailable", Violation.TWO_OUT, 16, scope(Fault.NOT_READY)),
    Case("cordon_on_version_read", Violation.TWO_OUT, 18, scope(Fault.NOT_READY)),
    # Somebody's work or wish is harmed.
    Case("ownership", Violation.CORDON_LIFTED, 13, scope(Fault.UNCORDONED, Fault.CORDONED, faults=2)),
    Case("holders_after_pause", Violation.HOLDER_LOST_SLICE, 15, scope(Fault.RECREATED, pods=True)),
    Case("last_look", Violation.HOLDER_LOST_SLICE, 15, scope(Fault.RECREATED, pods=True)),
    Case("drop_unstarted", Violation.NO_GRANT, 15, scope(Fault.RECREATED)),
    Case("live_before_record", Violation.NO_GRANT, 13, scope(Fault.REBOOT)),
    # Something of ours stays, or neither side moves any more.
    Case("ownership", Violation.STUCK, 15, scope(Fault.UNCORDONED)),
    Case("finish_whatever_is_granted", Violation.STUCK, 15, scope(Fault.CONFIG_DELETED)),
    Case("grants_without_slot", Violation.STUCK, 2, scope(Fault.REPLACED, faults=2, edit=False)),
    Case("slot_for_who_came_back", Violation.STUCK, 4, scope(Fault.NOT_READY)),
    Case("answer_last", Violation.GONE_TOO_EARLY, 24, scope(Fault.RECREATED, Fault.CONFIG_DELETED, faults=2)),
    Case("no_hold_no_cordon", Violation.GONE_TOO_EARLY, 8, scope(Fault.REBOOT, Fault.CONFIG_DELETED, faults=2)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.violation.name}")
def test_without_a_rule_something_breaks(case: Case) -> None:
    """Without the rule the search finds the violation that it prevents, as soon as it can happen at all."""
    finding = explore(case.scope, replace(ALL_RULES, **{case.rule: False}))
    assert (case.violation, case.steps) == (finding.violation, len(finding.trace)), str(finding)


def test_every_rule_is_needed() -> None:
    """No rule is without a case that shows what it prevents."""
    assert {field.name for field in fields(Rules)} == {case.rule for case in CASES}


def test_without_releasing_last_a_trace_says_how_the_second_node_went() -> None:
    """A finding tells the whole way to the violation, so that a reader can follow it."""
    finding = explore(scope(), replace(ALL_RULES, released_last=False))
    assert "edit" == finding.trace[0]
    assert ["cordon", "cordon"] == [line.partition(" (")[0] for line in finding.trace if line.startswith("cordon (")]
