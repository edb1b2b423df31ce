"""The agent's half of a MIGNode: what it has found on the node and done there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from mig_manager.api.conditions import Condition, conditions_from_list, format_time, parse_time, without_absent
from mig_manager.api.migconfig import Impact

GrantState = Literal["Held", "Repairing", "Released"]
GrantResult = Literal["Applied", "Aborted", "Failed", "RolledBack"]
Mode = Literal["Enabled", "Disabled"]


@dataclass(frozen=True, slots=True)
class GrantStatus:
    """How far the work under a grant has come.

    ``since`` is when it became Held or Repairing, ``attempts`` how many in a row came to nothing.
    """

    id: int
    state: GrantState
    result: GrantResult | None = None
    reason: str = ""
    message: str = ""
    not_before: datetime | None = None
    since: datetime | None = None
    attempts: int = 0

    @classmethod
    def from_dict(cls, grant: Mapping[str, Any]) -> GrantStatus:
        """Read ``status.grant``."""
        return cls(
            id=grant["id"],
            state=grant["state"],
            result=grant.get("result"),
            reason=grant.get("reason", ""),
            message=grant.get("message", ""),
            not_before=parse_time(grant.get("notBefore")),
            since=parse_time(grant.get("since")),
            attempts=grant.get("attempts", 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """``status.grant`` as it is written."""
        return without_absent(
            id=self.id,
            state=self.state,
            result=self.result,
            reason=self.reason or None,
            message=self.message or None,
            notBefore=format_time(self.not_before),
            since=format_time(self.since),
            attempts=self.attempts or None,
        )


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """What it takes to reach the desired layout; ``impact`` is ``None`` when ``reason`` says why it cannot be.

    ``evict`` names at most ten of the ``evict_count`` pods. With an impact, ``message`` says why it takes a reboot.
    """

    hash: str
    impact: Impact | None = None
    keep: int = 0
    create: int = 0
    destroy: int = 0
    evict: tuple[str, ...] = ()
    evict_count: int = 0
    reason: str = ""
    message: str = ""

    @classmethod
    def from_dict(cls, plan: Mapping[str, Any]) -> PlanStatus:
        """Read ``status.plan``."""
        return cls(
            hash=plan["hash"],
            impact=plan.get("impact"),
            keep=plan.get("keep", 0),
            create=plan.get("create", 0),
            destroy=plan.get("destroy", 0),
            evict=tuple(plan.get("evict", ())),
            evict_count=plan.get("evictCount", 0),
            reason=plan.get("reason", ""),
            message=plan.get("message", ""),
        )

    def to_dict(self) -> dict[str, Any]:
        """``status.plan`` as it is written."""
        return without_absent(
            hash=self.hash,
            impact=self.impact,
            keep=self.keep,
            create=self.create,
            destroy=self.destroy,
            evict=list(self.evict) or None,
            evictCount=self.evict_count,
            reason=self.reason or None,
            message=self.message or None,
        )


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """A card. ``mig`` is ``None`` without MIG; ``pending_mig`` where it is the present mode.

    ``slices`` are compact strings: ``3g.40gb@4``.
    """

    index: int
    uuid: str
    model: str
    bus_id: str = ""
    memory_mib: int = 0
    mig: Mode | None = None
    pending_mig: Mode | None = None
    slices: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, gpu: Mapping[str, Any]) -> GpuStatus:
        """Read an item of ``status.gpus``."""
        return cls(
            index=gpu["index"],
            uuid=gpu["uuid"],
            model=gpu["model"],
            bus_id=gpu.get("busID", ""),
            memory_mib=gpu.get("memoryMiB", 0),
            mig=gpu.get("mig"),
            pending_mig=gpu.get("pendingMIG"),
            slices=tuple(gpu.get("slices", ())),
        )

    def to_dict(self) -> dict[str, Any]:
        """The item as it is written."""
        return without_absent(
            index=self.index,
            uuid=self.uuid,
            model=self.model,
            busID=self.bus_id or None,
            memoryMiB=self.memory_mib or None,
            mig=self.mig,
            pendingMIG=self.pending_mig,
            slices=list(self.slices) or None,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Cards and slices in a few words, for ``kubectl get``."""

    gpus: str = ""
    slices: str = ""


@dataclass(frozen=True, slots=True)
class MIGNodeStatus:
    """The agent's half. ``slices_missing``: the cards lack slices of the last good layout, which the labels promise."""

    observed_generation: int = 0
    grant: GrantStatus | None = None
    plan: PlanStatus | None = None
    gpus: tuple[GpuStatus, ...] = ()
    summary: Summary = Summary()
    slices_missing: bool = False
    resources: Mapping[str, int] = field(default_factory=dict)
    step: str = ""
    since: datetime | None = None
    boot_id: str = ""
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def from_dict(cls, status: Mapping[str, Any]) -> MIGNodeStatus:
        """Read a status; an absent one is empty."""
        summary = status.get("summary", {})
        return cls(
            observed_generation=status.get("observedGeneration", 0),
            grant=GrantStatus.from_dict(status["grant"]) if status.get("grant") else None,
            plan=PlanStatus.from_dict(status["plan"]) if status.get("plan") else None,
            gpus=tuple(GpuStatus.from_dict(gpu) for gpu in status.get("gpus", ())),
            summary=Summary(summary.get("gpus", ""), summary.get("slices", "")),
            slices_missing=status.get("slicesMissing", False),
            resources=dict(status.get("resources", {})),
            step=status.get("step", ""),
            since=parse_time(status.get("since")),
            boot_id=status.get("bootID", ""),
            conditions=conditions_from_list(status.get("conditions", ())),
        )

    def to_dict(self) -> dict[str, Any]:
        """The status as it is written."""
        return without_absent(
            observedGeneration=self.observed_generation,
            grant=self.grant.to_dict() if self.grant else None,
            plan=self.plan.to_dict() if self.plan else None,
            gpus=[gpu.to_dict() for gpu in self.gpus],
            summary={"gpus": self.summary.gpus, "slices": self.summary.slices},
            slicesMissing=self.slices_missing,
            resources=dict(self.resources),
            step=self.step,
            since=format_time(self.since),
            bootID=self.boot_id,
            conditions=[condition.to_dict() for condition in self.conditions],
        )
