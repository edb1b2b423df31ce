"""MIGNode: the record of one node's GPUs. Spec by the controller (here), status by the node's agent.

Read tolerantly: an agent may be older than the controller or the other way round, so unknown fields are skipped. What
must not be misunderstood is guarded by ``spec.schema`` alone; values of wrong types, which no schema lets in, are
refused. Written in full: a writer sends its half whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mig_manager.api.conditions import without_absent
from mig_manager.api.layout import layout_from_dict, layout_to_dict
from mig_manager.api.migconfig import Drain, Impact, Rollback, Strategy
from mig_manager.api.mignode_status import MIGNodeStatus
from mig_manager.api.shape import MALFORMED, check_types
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout

SCHEMA = 1
"""The version of the agreement between controller and agent that this program speaks."""

UNKNOWN_SCHEMA = "UnknownSchema"
"""The reason for refusing a spec that was written under another agreement."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What the node shall look like: planned, never acted on. ``layout`` is ``None`` when ``error`` says why.

    ``max_impact`` and ``drain`` are part of it because a plan also says whether it is allowed, and whether those who
    would have to leave can be made to. ``max_impact`` is ``None`` where an older controller did not say. ``paused`` is
    for people, who look at the node first; what stops the work is that there is no grant.
    """

    config: str
    generation: int
    profile: str
    hash: str
    layout: Layout | None = None
    strategy: Strategy = "Auto"
    error: str = ""
    drain: Drain = field(default_factory=Drain)
    max_impact: Impact | None = None
    paused: bool = False

    @classmethod
    def from_dict(cls, desired: Mapping[str, Any]) -> Desired:
        """Read ``spec.desired``."""
        profile = desired["profile"]
        return cls(
            config=desired["config"],
            generation=desired["generation"],
            profile=profile,
            hash=desired["hash"],
            layout=layout_from_dict(desired["layout"], profile) if desired.get("layout") else None,
            strategy=desired.get("devicePluginStrategy", "Auto"),
            error=desired.get("error", ""),
            drain=Drain.from_dict(desired.get("drain", {})),
            max_impact=desired.get("maxImpact"),
            paused=desired.get("paused", False),
        )

    def to_dict(self) -> dict[str, Any]:
        """``spec.desired`` as it is written."""
        return without_absent(
            config=self.config,
            generation=self.generation,
            profile=self.profile,
            devicePluginStrategy=self.strategy,
            layout=layout_to_dict(self.layout) if self.layout else None,
            hash=self.hash,
            error=self.error or None,
            maxImpact=self.max_impact,
            paused=self.paused,
            drain=self.drain.to_dict(),
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """The permission to bring the node to ``layout``: a snapshot of everything needed for it.

    ``config`` is the MIGConfig whose maxUnavailable it counts against.
    """

    id: int
    by: str
    hash: str
    layout: Layout
    slot: bool = False
    revoked: bool = False
    strategy: Strategy = "Auto"
    max_impact: Impact = "EvictPods"
    drain: Drain = field(default_factory=Drain)
    rollback: Rollback = "OnFailure"
    config: str = ""

    @classmethod
    def from_dict(cls, grant: Mapping[str, Any]) -> Grant:
        """Read ``spec.grant``."""
        return cls(
            id=grant["id"],
            by=grant["by"],
            hash=grant["hash"],
            layout=layout_from_dict(grant["layout"], grant.get("profile", "")),
            slot=grant.get("slot", False),
            revoked=grant.get("revoked", False),
            strategy=grant.get("devicePluginStrategy", "Auto"),
            max_impact=grant.get("maxImpact", "EvictPods"),
            drain=Drain.from_dict(grant.get("drain", {})),
            rollback=grant.get("rollback", "OnFailure"),
            config=grant.get("config", ""),
        )

    def to_dict(self) -> dict[str, Any]:
        """``spec.grant`` as it is written; the layout's name is the profile."""
        return without_absent(
            id=self.id,
            by=self.by,
            config=self.config or None,
            slot=self.slot,
            revoked=self.revoked,
            hash=self.hash,
            profile=self.layout.name or None,
            devicePluginStrategy=self.strategy,
            layout=layout_to_dict(self.layout),
            maxImpact=self.max_impact,
            drain=self.drain.to_dict(),
            rollback=self.rollback,
        )


@dataclass(frozen=True, slots=True)
class MIGNodeSpec:
    """The controller's half. ``desired`` is ``None`` once the node belongs to no pool."""

    node_uid: str
    desired: Desired | None = None
    grant: Grant | None = None

    @classmethod
    def from_dict(cls, raw: object) -> MIGNodeSpec:
        """Read a spec; LayoutError when it was written under another agreement (UnknownSchema), or past the schema."""
        if isinstance(raw, Mapping) and raw.get("schema") != SCHEMA:
            raise LayoutError(
                UNKNOWN_SCHEMA,
                f"{raw.get('schema')!r} is not a version that this program knows",
                f"it knows {SCHEMA}: run controller and agent of the same release",
                "spec.schema",
            )
        spec = check_types("MIGNode", "spec", raw)
        return cls(
            node_uid=spec["nodeUID"],
            desired=Desired.from_dict(spec["desired"]) if spec.get("desired") else None,
            grant=Grant.from_dict(spec["grant"]) if spec.get("grant") else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The spec as it is written."""
        return without_absent(
            schema=SCHEMA,
            nodeUID=self.node_uid,
            desired=self.desired.to_dict() if self.desired else None,
            grant=self.grant.to_dict() if self.grant else None,
        )


@dataclass(frozen=True, slots=True)
class MIGNode:
    """A MIGNode as read from the API."""

    name: str
    uid: str
    resource_version: str
    generation: int
    spec: MIGNodeSpec
    status: MIGNodeStatus
    deleting: bool = False

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> MIGNode:
        """Read an object; LayoutError when its spec is of another agreement (UnknownSchema), or it cannot be read."""
        metadata = obj["metadata"]
        try:
            return cls(
                name=metadata["name"],
                uid=metadata.get("uid", ""),
                resource_version=metadata.get("resourceVersion", ""),
                generation=metadata.get("generation", 0),
                spec=MIGNodeSpec.from_dict(obj.get("spec", {})),
                status=read_status(obj),
                deleting="deletionTimestamp" in metadata,
            )
        except LayoutError:
            raise
        except ValueError as error:  # a word that is not known, where each means something else
            raise LayoutError(MALFORMED, str(error), "this program does not know it", "spec") from error


def read_status(obj: Mapping[str, Any]) -> MIGNodeStatus:
    """The agent's half of an object; LayoutError (MalformedObject) when it was written past the schema."""
    return MIGNodeStatus.from_dict(check_types("MIGNode", "status", obj.get("status", {})))
