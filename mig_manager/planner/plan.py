"""A plan: the target of every card of a node, what it costs to get there, or why it cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.state import Card, Holder
from mig_manager.planner.target import UNCHANGED, CardTarget, Difference


class Impact(StrEnum):
    """What a plan does to others, judged by effect; in rising order."""

    NONE = "None"
    FREE_SLICES = "FreeSlices"
    EVICT_PODS = "EvictPods"
    REBOOT_NODE = "RebootNode"

    @property
    def rank(self) -> int:
        """Position in the rising order."""
        return list(Impact).index(self)

    def allowed_by(self, limit: Impact) -> bool:
        """Whether a limit of ``maxImpact`` admits this."""
        return self.rank <= limit.rank


@dataclass(frozen=True, slots=True)
class CardPlan:
    """What is planned for one card.

    ``target`` is ``None`` when the layout does not concern the card: then it stays untouched. ``entry`` is the index of
    the layout's entry that won. ``reset`` says that the card (with its reset group, or with the whole machine where the
    plan takes a reboot) must be reset before the mode is current. ``evict`` are the holders that must go; those already
    leaving are not among them. ``reason`` says why there is no plan for this card.
    """

    card: Card
    entry: int | None = None
    target: CardTarget | None = None
    difference: Difference = UNCHANGED
    reset: bool = False
    evict: tuple[Holder, ...] = ()
    reason: LayoutError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planned for a node. Cards are in index order; ``evict`` are the distinct holders that must go."""

    cards: tuple[CardPlan, ...]
    impact: Impact
    evict: tuple[Holder, ...] = ()
    reason: LayoutError | None = None

    @property
    def feasible(self) -> bool:
        """Whether every card that the layout concerns can have what it asks for."""
        return self.reason is None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return any(not c.difference.empty for c in self.cards)

    def refused(self, reason: LayoutError) -> Plan:
        """The plan that is not to be: nothing is changed, and why."""
        return Plan(tuple(CardPlan(card.card) for card in self.cards), Impact.NONE, reason=reason)

    @property
    def destroyed(self) -> int:
        """How many GPU instances go."""
        return sum(len(c.difference.destroy) for c in self.cards)
