"""The controller's half of a MIGConfig: counts and conditions, of a size that does not grow with the pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mig_manager.api.conditions import Condition, conditions_from_list


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The nodes of a pool; each counts in ``total`` and in one of the others."""

    total: int = 0
    ready: int = 0
    updating: int = 0
    pending: int = 0
    blocked: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class MIGConfigStatus:
    """How far a pool has come."""

    observed_generation: int = 0
    nodes: NodeCounts = NodeCounts()
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def from_dict(cls, status: Mapping[str, Any]) -> MIGConfigStatus:
        """Read a status; an absent one is empty."""
        nodes = status.get("nodes", {})
        return cls(
            observed_generation=status.get("observedGeneration", 0),
            nodes=NodeCounts(**{name: nodes.get(name, 0) for name in NodeCounts.__slots__}),
            conditions=conditions_from_list(status.get("conditions", ())),
        )

    def to_dict(self) -> dict[str, Any]:
        """The status as it is written."""
        return {
            "observedGeneration": self.observed_generation,
            "nodes": asdict(self.nodes),
            "conditions": [condition.to_dict() for condition in self.conditions],
        }
