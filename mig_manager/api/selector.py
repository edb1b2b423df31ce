"""Kubernetes' LabelSelector as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must look like."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it. A label that is absent meets NotIn, as in Kubernetes."""
        match self.operator:
            case "In":
                return self.key in labels and labels[self.key] in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels

    def to_dict(self) -> dict[str, Any]:
        """The requirement as it is written in objects."""
        made: dict[str, Any] = {"key": self.key, "operator": self.operator}
        return made | ({"values": list(self.values)} if self.values else {})


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All labels and all requirements must hold."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            requirement.met_by(labels) for requirement in self.match_expressions
        )

    @classmethod
    def from_dict(cls, selector: Mapping[str, Any]) -> LabelSelector:
        """Read a selector that the schema has accepted."""
        return cls(
            tuple(sorted(selector.get("matchLabels", {}).items())),
            tuple(
                Requirement(term["key"], term["operator"], tuple(term.get("values", ())))
                for term in selector.get("matchExpressions", ())
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The selector as it is written in objects."""
        made: dict[str, Any] = {}
        if self.match_labels:
            made["matchLabels"] = dict(self.match_labels)
        if self.match_expressions:
            made["matchExpressions"] = [requirement.to_dict() for requirement in self.match_expressions]
        return made
