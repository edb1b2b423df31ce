"""MIGConfig: what an administrator wants of a pool of nodes. Spec by people, status by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mig_manager.api.conditions import without_absent
from mig_manager.api.layout import layout_from_dict
from mig_manager.api.schema import validate
from mig_manager.api.selector import LabelSelector
from mig_manager.geometry.layout import Layout

DEFAULT_PROFILE_LABEL = "migmanager.io/profile"

Impact = Literal["None", "FreeSlices", "EvictPods", "RebootNode"]
"""The limits of ``maxImpact``, in rising order."""

Strategy = Literal["Auto", "Mixed", "Single", "None"]
Rollback = Literal["OnFailure", "Never"]
OnTimeout = Literal["Abort", "Wait"]
Jobs = Literal["WaitForCompletion", "Evict"]


@dataclass(frozen=True, slots=True)
class Drain:
    """How pods leave the slices that have to go.

    ``grace_period_s`` is ``None`` for the pods' own, ``protected`` selects pods that nobody may evict. ``force`` and
    ``delete_empty_dir_data`` are the consents that ``kubectl drain`` asks for under these names.
    """

    timeout_s: int = 900
    on_timeout: OnTimeout = "Abort"
    grace_period_s: int | None = None
    jobs: Jobs = "WaitForCompletion"
    protected: LabelSelector | None = None
    force: bool = False
    delete_empty_dir_data: bool = False

    @classmethod
    def from_dict(cls, drain: Mapping[str, Any]) -> Drain:
        """Read a drain that the schema has accepted."""
        protected = drain.get("protectedPods")
        return cls(
            timeout_s=drain.get("timeoutSeconds", 900),
            on_timeout=drain.get("onTimeout", "Abort"),
            grace_period_s=drain.get("gracePeriodSeconds"),
            jobs=drain.get("jobs", "WaitForCompletion"),
            protected=LabelSelector.from_dict(protected) if protected is not None else None,
            force=drain.get("force", False),
            delete_empty_dir_data=drain.get("deleteEmptyDirData", False),
        )

    def to_dict(self) -> dict[str, Any]:
        """The drain as it is written in objects."""
        return without_absent(
            jobs=self.jobs,
            protectedPods=self.protected.to_dict() if self.protected else None,
            force=self.force,
            deleteEmptyDirData=self.delete_empty_dir_data,
            timeoutSeconds=self.timeout_s,
            onTimeout=self.on_timeout,
            gracePeriodSeconds=self.grace_period_s,
        )


@dataclass(frozen=True, slots=True)
class Disruption:
    """How much a change of layout may disturb. ``max_unavailable`` is a number or a percentage such as ``10%``."""

    max_unavailable: int | str = 1
    max_impact: Impact = "EvictPods"
    drain: Drain = Drain()

    def budget(self, nodes: int) -> int:
        """How many of so many nodes may be out at a time; a percentage is rounded down but gives at least 1."""
        if isinstance(self.max_unavailable, int):
            return self.max_unavailable
        return max(1, nodes * int(self.max_unavailable.removesuffix("%")) // 100)


@dataclass(frozen=True, slots=True)
class MIGConfig:
    """A MIGConfig's metadata and spec; ``profiles`` are its own layouts by name."""

    name: str
    node_selector: LabelSelector
    profile: str
    generation: int = 0
    node_profile_label: str = DEFAULT_PROFILE_LABEL
    profiles: Mapping[str, Layout] = field(default_factory=dict)
    strategy: Strategy = "Auto"
    disruption: Disruption = Disruption()
    rollback: Rollback = "OnFailure"
    paused: bool = False

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> MIGConfig:
        """Validate an object against the schema and read it; raises LayoutError (InvalidSpec)."""
        whole = validate(obj, "MIGConfig")
        metadata, spec = whole["metadata"], whole["spec"]
        disruption = spec["disruption"]
        return cls(
            name=metadata["name"],
            node_selector=LabelSelector.from_dict(spec["nodeSelector"]),
            profile=spec["profile"],
            generation=metadata.get("generation", 0),
            node_profile_label=spec["nodeProfileLabel"],
            profiles={name: layout_from_dict(layout, name) for name, layout in spec.get("profiles", {}).items()},
            strategy=spec["devicePluginStrategy"],
            disruption=Disruption(
                disruption["maxUnavailable"], disruption["maxImpact"], Drain.from_dict(disruption["drain"])
            ),
            rollback=spec["rollback"],
            paused=spec["paused"],
        )
