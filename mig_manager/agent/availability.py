"""Whether a node is unavailable anyway, as the grant protocol defines it: never by our own cordon or pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mig_manager.agent.identity import Cordon
from mig_manager.geometry.state import Card
from mig_manager.gpu.journal import Record, Targets
from mig_manager.kube.conditions import is_true
from mig_manager.planner.target import CardTarget, difference, target_of


def node_ready(node: Mapping[str, Any]) -> bool:
    """Whether the kubelet reports itself ready."""
    return is_true(node, "Ready")


def promised(record: Record) -> Targets:
    """What the node's labels promise: the last good layout, and of cards without one where an open change began."""
    origin = record.intent.origin if record.intent else {}
    return {**origin, **record.last_good}


def lacks_slices(cards: Iterable[Card], record: Record) -> bool:
    """Whether slices that were promised are missing.

    Counts matter, not places: pods ask for a resource. A card that is gone lacks everything. After a change that
    failed and was not taken back nothing is promised, and the node counts as lacking until something good is reached,
    however often another attempt is given up.
    """
    there = {card.uuid: card for card in cards}
    wanted = promised(record)
    if not wanted:
        return bool(record.failed)
    return any(uuid not in there or _lacking(there[uuid], target) for uuid, target in wanted.items())


def half_done(cards: Iterable[Card], record: Record) -> bool:
    """Whether an open record is half done: its cards are neither all where it began nor all where it leads."""
    intent = record.intent
    if intent is None:
        return False
    there = {card.uuid: card for card in cards}
    ends = (intent.origin, intent.to)
    return not any(all(u in there and difference(there[u], t).empty for u, t in end.items()) for end in ends)


def unavailable_anyway(node: Mapping[str, Any], cordon: Cordon, *, lacking: bool) -> bool:
    """Not Ready, or unschedulable by somebody else, or without slices that were promised."""
    return lacking or cordon.others or not node_ready(node)


def same_slices(one: CardTarget, other: CardTarget) -> bool:
    """Whether two targets of a card promise the same, wherever it lies."""
    return one.mig is other.mig and _kinds(one) == _kinds(other)


def _lacking(card: Card, target: CardTarget) -> bool:
    now = target_of(card)
    return now.mig is not target.mig or bool(_kinds(target) - _kinds(now))


def _kinds(target: CardTarget) -> Counter[tuple[int, tuple[int, ...]]]:
    return Counter((s.profile_id, tuple(sorted(c.size for c in s.compute))) for s in target.slices)
