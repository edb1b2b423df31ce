"""Conditions, times and absent fields, in the form that Kubernetes uses everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

ConditionValue = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of an object's state. ``since`` is when ``status`` became what it is, to the second."""

    type: str
    status: ConditionValue
    reason: str
    message: str
    since: datetime
    observed_generation: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The condition as it is written."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": format_time(self.since),
            "observedGeneration": self.observed_generation,
        }


def conditions_from_list(items: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """Read ``status.conditions``."""
    return tuple(
        Condition(
            type=item["type"],
            status=item["status"],
            reason=item["reason"],
            message=item["message"],
            since=datetime.fromisoformat(item["lastTransitionTime"]),
            observed_generation=item.get("observedGeneration", 0),
        )
        for item in items
    )


def carried_over(former: Iterable[Condition], current: Iterable[Condition]) -> tuple[Condition, ...]:
    """The current conditions, each with its former ``since`` where its status has not changed."""
    then = {condition.type: condition for condition in former}
    return tuple(
        replace(now, since=then[now.type].since) if now.type in then and then[now.type].status == now.status else now
        for now in current
    )


def format_time(moment: datetime | None) -> str | None:
    """A moment in UTC to the second, as Kubernetes writes it: ``2026-11-29T14:47:09Z``."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> datetime | None:
    """Read such a moment; ``None`` stays ``None``."""
    return None if text is None else datetime.fromisoformat(text)


def without_absent(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is anything
    """The fields that have a value: what is ``None`` here is absent there."""
    return {name: value for name, value in fields.items() if value is not None}
