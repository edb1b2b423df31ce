"""The agent of the model: everything that it may do next on its node.

Wherever the rules do not demand a live read it may believe anything, which includes every stale read. It may die at any
moment, any number of times: then its reads are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.protocol.rules import Rules
from tests.protocol.state import (
    SCHEDULABLE,
    STALE,
    TOP_OF_PASS,
    UNSCHEDULABLE,
    Doing,
    Fault,
    NodeState,
    Step,
    Violation,
    step,
)


def agent(n: NodeState, rules: Rules) -> Iterator[Step]:
    """Every action of the agent in this state."""
    if n.doing:
        yield step(n, "agent dies", fair=False, **TOP_OF_PASS)
        yield _MIDWAY[n.doing](n, rules)
        return
    if not rules.no_hold_no_cordon and not n.cards and n.cordon not in UNSCHEDULABLE and not _holds(n, rules):
        yield step(n, "retract with a cordon", cordon="ours")
    if n.cordon in STALE and rules.ownership:
        cordon = "none" if n.cordon == "our annotation alone" else "person's"
        yield step(n, "drop our stale annotation", cordon=cordon)
    if n.record:
        yield from _finish(n, n.record, rules)
        return
    if _holds(n, rules):
        yield from _stand_down(n, rules)
    if n.state != "Released" and n.cards != n.granted and n.granted:
        yield from _work(n, rules)
    yield from _take_up(n, rules)
    if n.exists and not (_holds(n, rules) and rules.answer_last) and (n.reported != n.cards or not n.observed):
        yield step(n, "report", reported=n.cards, observed=True)


def _seems_ours(n: NodeState, rules: Rules) -> bool:
    return n.cordon == "ours" or (n.cordon == "person's with our annotation" and not rules.ownership)


def _holds(n: NodeState, rules: Rules) -> bool:
    return _seems_ours(n, rules) or n.paused or n.record is not None or n.state != "Released"


def _may_cordon(n: NodeState, rules: Rules) -> bool:
    return n.state == "Held" or n.unavailable_anyway or not rules.slotless_only_if_unavailable


# -- between two requests --


def _acknowledge(n: NodeState, _rules: Rules) -> Step:
    return step(n, "acknowledge", answered=n.grant_unchanged, reported=n.cards, resting=False, **TOP_OF_PASS)


def _check_lease(n: NodeState, rules: Rules) -> Step:
    if n.claim == "Held" and rules.leader_checked and not n.by_leader:
        return step(n, "the Lease says: a former leader's grant", **TOP_OF_PASS)
    return step(n, "the Lease says: the leader's grant", doing="write hold")


def _write_hold(n: NodeState, rules: Rules) -> Step:
    if not rules.held_before_cordon:
        if n.claim == "Repairing" and not n.unavailable_anyway:
            return step(n, "node is back: no cordon", **TOP_OF_PASS)
        if n.cordon not in SCHEDULABLE:
            return step(n, "cordon before Held: already", **TOP_OF_PASS)
        out = n.taken_out or not n.unavailable_anyway
        return step(n, "cordon before Held", cordon="ours", taken_out=out, **TOP_OF_PASS)
    if n.mignode_unchanged or not rules.held_on_version_read:
        state = "Held" if n.state == "Held" else n.claim
        return step(n, "write Held or Repairing", state=state, answered=n.grant_unchanged, **TOP_OF_PASS)
    return step(n, "write Held or Repairing: conflict", **TOP_OF_PASS)


def _cordon(n: NodeState, rules: Rules) -> Step:
    if not n.node_unchanged and rules.cordon_on_version_read:
        return step(n, "cordon: conflict", **TOP_OF_PASS)
    if n.cordon in SCHEDULABLE:
        return step(n, "cordon", cordon="ours", taken_out=n.taken_out or not n.unavailable_anyway, **TOP_OF_PASS)
    if n.cordon == "person's":
        return step(n, "cordon over a person's", cordon="person's with our annotation", **TOP_OF_PASS)
    return step(n, "cordon: already", **TOP_OF_PASS)


def _uncordon(n: NodeState, rules: Rules) -> Step:
    if not n.node_unchanged and rules.cordon_on_version_read:
        return step(n, "uncordon: conflict", **TOP_OF_PASS)
    lifted = n.cordon in {"person's", "person's with our annotation"}
    violation = Violation.CORDON_LIFTED if lifted else Violation.NONE
    return step(n, "uncordon", cordon="none", violation=violation, **TOP_OF_PASS)


def _write_record(n: NodeState, rules: Rules) -> Step:
    if (n.pod and rules.holders_after_pause) or n.cordon not in UNSCHEDULABLE:
        return step(n, "a holder, or uncordoned: back", **TOP_OF_PASS)
    if not n.paused:  # the wrong order: holders were looked at before the clients went
        return step(n, "pause clients after the look at holders", paused=True)
    return step(n, "write record", record=(n.order, n.cards), doing="destroy")


def _destroy(n: NodeState, rules: Rules) -> Step:
    changed = n.pod or n.cordon not in UNSCHEDULABLE or not n.paused
    if rules.last_look and rules.holders_after_pause and changed:
        return step(n, "last look: back, record dropped", record=None, **TOP_OF_PASS)
    violation = Violation.HOLDER_LOST_SLICE if n.pod else Violation.NONE
    return step(n, "first destroy", cards="", violation=violation, **TOP_OF_PASS)


_MIDWAY: dict[Doing, Callable[[NodeState, Rules], Step]] = {
    "acknowledge": _acknowledge,
    "check lease": _check_lease,
    "write hold": _write_hold,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "write record": _write_record,
    "destroy": _destroy,
}


# -- from the top of a pass --


def _finish(n: NodeState, record: tuple[str, str], rules: Rules) -> Iterator[Step]:
    """A1: what was begun is finished, rolled back, or dropped if nothing was destroyed."""
    to, origin = record
    if not rules.finish_whatever_is_granted and not n.standing:
        return
    if n.cards == origin and origin:
        if rules.drop_unstarted:
            yield step(n, "drop record, nothing was destroyed", record=None)
        else:
            unwanted = Violation.NONE if n.standing and n.granted == to else Violation.NO_GRANT
            yield step(n, "continue record", cards="", violation=Violation.HOLDER_LOST_SLICE if n.pod else unwanted)
    elif n.cards == to:
        yield step(n, "verified, record closed", record=None, last_good=to)
    elif n.cordon not in UNSCHEDULABLE:
        if _may_cordon(n, rules):
            yield step(n, "read Node for cordon", doing="cordon", node_unchanged=True)
    elif not n.paused:
        yield step(n, "pause clients", paused=True)
    else:
        yield step(n, "create", cards=to)
        failed = Fault.CREATION_FAILS
        if to != origin and origin:
            yield step(n, "creation fails, roll back", fair=False, fault=failed, record=(origin, origin))
        else:
            yield step(n, "creation fails again, give up", fair=False, fault=failed, record=None, last_good="")


def _stand_down(n: NodeState, rules: Rules) -> Iterator[Step]:
    """A7, A9: allowed at any time before the first destroy, demanded where the work must not go on."""
    work = n.cards != n.granted
    came_back = n.state == "Repairing" and not n.unavailable_anyway
    blocked = n.pod and n.pdb_closed
    must = not n.standing or (n.answered and not work) or came_back or blocked or n.state == "Released"
    if n.paused:
        yield step(n, "resume clients", fair=must, paused=False)
    elif _seems_ours(n, rules):
        yield step(n, "read Node for uncordon", fair=must, doing="uncordon", node_unchanged=True)
    if n.state != "Released":
        if (not _seems_ours(n, rules) and not n.paused) or not rules.released_last:
            resting = work and n.standing and n.answered
            yield step(n, "write Released", fair=must, state="Released", reported=n.cards, resting=resting)
    elif not rules.held_before_cordon and n.standing and not n.answered:
        yield step(n, "write Held late", state="Held", answered=True)


def _work(n: NodeState, rules: Rules) -> Iterator[Step]:
    """A4 to A6: under a hold. A stale belief that the grant still stands does no harm up to the live read."""
    ours = n.standing and n.answered
    fair = ours and not (n.state == "Repairing" and not n.unavailable_anyway)
    if n.cordon not in UNSCHEDULABLE:
        if _may_cordon(n, rules):
            yield step(n, "read Node for cordon", fair=fair, doing="cordon", node_unchanged=True)
    elif n.pod:
        if not n.pdb_closed:
            yield step(n, "evict", fair=fair, pod=False)
    elif not n.paused and rules.holders_after_pause:
        yield step(n, "pause clients", fair=fair, paused=True)
    elif ours or not rules.live_before_record:
        violation = Violation.NONE if ours else Violation.NO_GRANT
        yield step(n, "read grant live", violation=violation, doing="write record", order=n.granted)


def _take_up(n: NodeState, rules: Rules) -> Iterator[Step]:
    """A2, A3: the grant that stands is acknowledged if nothing is to be done, else taken up."""
    if not n.standing:
        return
    if n.cards == n.granted:
        if not n.answered:
            yield step(n, "read MIGNode to acknowledge", doing="acknowledge", grant_unchanged=True)
        return
    if not rules.released_is_spent and n.answered and n.state == "Released" and n.slot and not n.resting:
        yield step(n, "the same id again", state="Held")
    if n.state != "Released" and n.answered:
        return
    slot = n.slot and not n.answered
    repair = n.unavailable_anyway and not (n.answered and n.pod)
    if slot or repair or not rules.slotless_only_if_unavailable:
        yield step(
            n,
            "read MIGNode to take up",
            fair=not (n.pod and n.pdb_closed and n.answered),
            doing="check lease",
            claim="Held" if slot else "Repairing",
            mignode_unchanged=True,
            grant_unchanged=True,
        )
