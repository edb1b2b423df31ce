"""One node of a pool as the decisions see it, and what its state amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mig_manager.api.migconfig import MIGConfig
from mig_manager.api.mignode import Desired
from mig_manager.api.rest import rest_s
from mig_manager.controller.records import MIGNodeRecord
from mig_manager.planner.plan import Impact

NO_AGENT = "NoAgent"
NOT_RESPONDING = "AgentNotResponding"
IMPACT = "ImpactNotAllowed"

RANKS = {str(impact): impact.rank for impact in Impact}
"""The rising order of impacts, looked up for every node in every pass."""

PATIENCE_S = 60.0
"""For how long an answer is waited for: then a slot that was not taken up is revoked, and an agent counts as away."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a node cannot have its layout without somebody's help: one CamelCase word, and the same for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """A node of a pool.

    ``outage`` says why the node is unavailable anyway, as far as the controller can judge, and is empty when it is not.
    ``agent`` says why no answer can be expected from there (NoAgent,
    AgentNotResponding), since ``silent_s`` seconds, and is empty when one can. ``asked_s`` is for how many seconds the
    present grant stands, as far as this process knows.
    """

    record: MIGNodeRecord
    wish: Desired
    outage: str = ""
    agent: str = ""
    silent_s: float = 0.0
    asked_s: float = 0.0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.record.name

    @property
    def unavailable(self) -> bool:
        """Whether the node is unavailable anyway."""
        return bool(self.outage)

    @property
    def planned(self) -> bool:
        """Whether the agent has said what the present wish would take."""
        return self.record.plan is not None and self.record.plan.hash == self.wish.hash

    @property
    def in_place(self) -> bool:
        """Whether the wanted layout is on the cards, so that nothing is left to be done."""
        return self.record.plan is not None and self.planned and self.record.plan.applied

    def obstacle(self, config: MIGConfig) -> Obstacle | None:
        """What is in the way whoever's turn it is.

        An unknown profile, no feasible plan, one that harms too much, or somebody there who cannot be made to leave.
        """
        if self.wish.error:
            reason, _, text = self.wish.error.partition(": ")
            return Obstacle(reason, text)
        plan = self.record.plan
        if plan is None or not self.planned:
            return None
        if plan.impact is None:
            return Obstacle(plan.reason or "NotFeasible", plan.message or "there is no plan for this node")
        limit = config.disruption.max_impact
        # An agent that knows the limit has said so itself, and why it takes that much.
        if RANKS[plan.impact] > RANKS[limit] and plan.reason != IMPACT:
            why = f" ({plan.message})" if plan.message and not plan.reason else ""
            return Obstacle(IMPACT, f"it takes {plan.impact}{why}, and maxImpact is {limit}")
        return Obstacle(plan.reason, plan.message) if plan.reason else None

    def rest_s(self, now: datetime) -> float:
        """For how many seconds the last attempt has asked for time before the next one; 0 when that is over."""
        grant, state = self.record.grant, self.record.state
        return 0.0 if grant is None or state is None else rest_s(state.not_before, grant.drain.timeout_s, now)
