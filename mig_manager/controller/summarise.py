"""From the nodes of a pool to the status of its MIGConfig: counts, and three conditions with reasons.

The status answers "is the pool as I want it, and if not, why" in one line, and its size does not grow with the pool:
messages name up to three nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from mig_manager.api.conditions import Condition, ConditionValue, carried_over
from mig_manager.api.migconfig import MIGConfig
from mig_manager.controller.records import ConfigRecord
from mig_manager.controller.views import NOT_RESPONDING, PATIENCE_S, View
from mig_manager.wording import shortened

Group = Literal["ready", "updating", "pending", "blocked", "failed"]
GROUPS: tuple[Group, ...] = ("ready", "updating", "pending", "blocked", "failed")

NAMED = 3
"""So many nodes are named in a message; the others are counted."""

TEXT_LIMIT = 200
"""So much of a node's own message is repeated in that of its pool."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a node counts as in its pool, and why."""

    name: str
    group: Group
    reason: str = ""
    message: str = ""


def standing(view: View, config: MIGConfig, now: datetime) -> Standing:
    """What one node counts as. Every node counts exactly once."""
    group, reason, message = _judge(view, config, now)
    return Standing(view.name, group, reason, message)


def _judge(view: View, config: MIGConfig, now: datetime) -> tuple[Group, str, str]:
    record = view.record
    if record.unreadable:
        return "blocked", record.reason, record.unreadable
    if view.agent and view.silent_s >= PATIENCE_S and not (record.released and record.ready and view.in_place):
        if record.told and record.released and record.observed_generation < record.generation:
            # It does not answer because it cannot, and says why.
            return "blocked", record.reason, record.message
        text = (
            "no agent runs there; look at the DaemonSet agent and the node's labels"
            if view.agent != NOT_RESPONDING
            else "its agent does not answer"
        )
        return "blocked", view.agent, text
    if record.holds_slot or not record.released:
        return "updating", "Updating", record.message
    obstacle = view.obstacle(config)
    if obstacle is not None:
        return "blocked", obstacle.reason, obstacle.message
    return _judge_in_place(view) if view.in_place else _judge_waiting(view, config, now)


def _judge_waiting(view: View, config: MIGConfig, now: datetime) -> tuple[Group, str, str]:
    """A node that nobody works on: not planned yet, not yet its turn, or tried in vain."""
    record, state = view.record, view.record.state
    if not view.planned and record.told:
        # The agent has seen this wish and says what keeps it from planning: its driver, its journal, the kubelet.
        return "blocked", record.reason, record.message
    if not view.planned:
        return "pending", "Planning", "the agent has not planned the layout yet"
    tried = record.taken_up and record.grant is not None and record.grant.hash == view.wish.hash
    if tried and state is not None and state.result in ("Failed", "RolledBack"):
        return "failed", state.reason or state.result, state.message
    if tried and state is not None and state.result == "Aborted" and view.rest_s(now):
        return "blocked", state.reason or state.result, state.message
    if config.paused:
        return "pending", "Paused", "it waits for spec.paused to be false"
    return "pending", "Waiting", "its turn has not come"


def _judge_in_place(view: View) -> tuple[Group, str, str]:
    """A node whose cards are as wanted is ready when it is also advertised and open for pods."""
    record = view.record
    if record.ready and not view.unavailable:
        return "ready", "Ready", ""
    if record.ready:
        return "blocked", "NodeUnavailable", view.outage
    if not record.taken_up:
        return "pending", "Acknowledging", "the agent has not confirmed the layout yet"
    return "blocked", record.reason or "NotReady", record.message


def status(record: ConfigRecord, standings: Sequence[Standing], now: datetime) -> dict[str, Any] | None:
    """The status to be written, or ``None`` when the present one says it already."""
    groups = Counter(s.group for s in standings)
    counts = {"total": len(standings)} | {str(group): groups[group] for group in GROUPS}
    said = {
        "Ready": _ready(record, standings, counts),
        "Progressing": _progressing(record, counts),
        "Degraded": _degraded(record, standings),
    }
    since, generation = now.replace(microsecond=0), record.generation
    conditions = carried_over(
        record.conditions,
        [Condition(kind, value, why, shortened(text), since, generation) for kind, (value, why, text) in said.items()],
    )
    if (
        record.observed_generation == record.generation
        and dict(record.nodes) == counts
        and record.conditions == conditions
    ):
        return None
    return {
        "observedGeneration": record.generation,
        "nodes": counts,
        "conditions": [condition.to_dict() for condition in conditions],
    }


def _ready(
    record: ConfigRecord, standings: Sequence[Standing], counts: dict[str, int]
) -> tuple[ConditionValue, str, str]:
    """Whether every node has its layout. The reason is the STATUS column of ``kubectl get migconfig``."""
    if record.error:
        reason, _, text = record.error.partition(": ")
        return "False", reason, text
    if not standings:
        return "False", "NoNodes", "no node has the labels of spec.nodeSelector"
    if counts["ready"] == counts["total"]:
        return "True", "Ready", f"all of {_in_place(counts['total'])}"
    done = f"{counts['ready']} of {_in_place(counts['total'])}"
    groups = {g: found for g in ("updating", "failed", "blocked") if (found := [s for s in standings if s.group == g])}
    if groups:
        # Whoever reads that some are being changed wants to know in the same line that others will not be.
        kind, found = next(iter(groups.items()))
        word = "Updating" if kind == "updating" else _common_reason(found, kind.title())
        return "False", word, f"{done}; {'; '.join(_told(group) for group in groups.values())}"
    waiting = [s for s in standings if s.group == "pending"]
    paused = record.config is not None and record.config.paused
    return "False", "Paused" if paused else "Pending", f"{done}; {_told(waiting)}"


def _progressing(record: ConfigRecord, counts: dict[str, int]) -> tuple[ConditionValue, str, str]:
    """Whether nodes are being changed, or will be without anybody's help."""
    if counts["updating"]:
        return "True", "Updating", f"{_nodes(counts['updating'])} being changed, {counts['pending']} waiting"
    if not counts["pending"]:
        return "False", "Idle", "nothing is left to be done without help"
    if record.config is not None and record.config.paused:
        return "False", "Paused", f"{_nodes(counts['pending'])} waiting for spec.paused to be false"
    return "True", "Pending", f"{_nodes(counts['pending'])} waiting"


def _degraded(record: ConfigRecord, standings: Sequence[Standing]) -> tuple[ConditionValue, str, str]:
    """Whether nodes cannot go on by themselves."""
    if record.error:
        reason, _, text = record.error.partition(": ")
        return "True", reason, text
    stuck = [s for s in standings if s.group in ("failed", "blocked")]
    if not stuck:
        return "False", "AsExpected", "no node is blocked and none has failed"
    return "True", _common_reason(stuck, "SeveralReasons"), _told(stuck)


def _common_reason(standings: Sequence[Standing], otherwise: str) -> str:
    reasons = {s.reason for s in standings}
    return reasons.pop() if len(reasons) == 1 else otherwise


def _told(standings: Sequence[Standing]) -> str:
    """``n1, n2 (NoAgent: no agent runs there), n3 (UnknownProfile: ...) and 4 more``."""
    first = sorted(standings, key=lambda s: s.name)[:NAMED]
    alike: dict[tuple[str, str], list[str]] = {}
    for one in first:
        alike.setdefault((one.reason, one.message), []).append(one.name)
    texts = [", ".join(names) + _why(reason, message) for (reason, message), names in alike.items()]
    rest = len(standings) - len(first)
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def _why(reason: str, message: str) -> str:
    return f" ({reason}: {shortened(message, TEXT_LIMIT)})" if message else f" ({reason})"


def _in_place(number: int) -> str:
    return f"{_nodes(number)} {'has its' if number == 1 else 'have their'} layout"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
