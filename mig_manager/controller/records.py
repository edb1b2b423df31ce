"""What the controller keeps of the objects it watches: a few fields each, so that 5,000 nodes fit into little memory.

The layouts of a MIGNode are left out; their hashes tell all that is compared. Strings that many objects share are
interned.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mig_manager.api.conditions import Condition, conditions_from_list
from mig_manager.api.marks import CORDON_ANNOTATION
from mig_manager.api.migconfig import Drain, Impact, MIGConfig, Rollback
from mig_manager.api.mignode import SCHEMA, UNKNOWN_SCHEMA
from mig_manager.api.mignode_status import GrantStatus
from mig_manager.api.shape import MALFORMED, check_types
from mig_manager.controller.desire import Wishes
from mig_manager.geometry.errors import LayoutError

READY = "Ready"
"""The condition of a Node, of a Pod, of a MIGNode and of a MIGConfig that says whether it is of use."""


DEFAULT_DRAIN = Drain()
"""One object for the many records that say nothing else."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A Node. ``cordoned`` means unschedulable by somebody else: our own cordon carries an annotation."""

    name: str
    uid: str
    labels: Mapping[str, str]
    ready: bool
    cordoned: bool

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> NodeRecord:
        """Read a Node."""
        metadata = obj["metadata"]
        ours = CORDON_ANNOTATION in (metadata.get("annotations") or {})
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            labels={sys.intern(key): sys.intern(value) for key, value in (metadata.get("labels") or {}).items()},
            ready=_condition(obj, READY).get("status") == "True",
            cordoned=bool(obj.get("spec", {}).get("unschedulable")) and not ours,
        )

    @property
    def outage(self) -> str:
        """Why pods cannot run there whatever we do; empty when they can."""
        if not self.ready:
            return "the Node is not Ready"
        return "somebody else has cordoned the Node" if self.cordoned else ""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """A pod of the agents' DaemonSet; ``ready`` is false while it starts and when it crashes again and again."""

    node: str
    ready: bool

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> AgentRecord:
        """Read a Pod."""
        leaving = "deletionTimestamp" in obj["metadata"]
        ready = _condition(obj, READY).get("status") == "True"
        return cls(sys.intern(obj.get("spec", {}).get("nodeName", "")), ready and not leaving)


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """``spec.grant`` without its layout."""

    id: int
    by: str
    config: str
    slot: bool
    revoked: bool
    hash: str
    max_impact: Impact
    drain: Drain
    rollback: Rollback

    @classmethod
    def from_dict(cls, grant: Mapping[str, Any]) -> GrantRecord:
        """Read ``spec.grant``."""
        return cls(
            id=grant["id"],
            by=sys.intern(grant["by"]),
            config=sys.intern(grant.get("config", "")),
            slot=grant.get("slot", False),
            revoked=grant.get("revoked", False),
            hash=sys.intern(grant["hash"]),
            max_impact=grant.get("maxImpact", "EvictPods"),
            drain=_drain(grant),
            rollback=grant.get("rollback", "OnFailure"),
        )


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """``status.plan`` as far as it decides: ``applied`` means that nothing is left to be changed on the cards.

    With an ``impact``, ``reason`` is about somebody who is in the way and cannot be made to leave; without one the
    layout is not feasible.
    """

    hash: str
    impact: Impact | None
    applied: bool
    reason: str
    message: str

    @classmethod
    def from_dict(cls, plan: Mapping[str, Any]) -> PlanRecord:
        """Read ``status.plan``. Creating slices in free space disturbs nobody, so impact None is not yet applied."""
        impact = plan.get("impact")
        untouched = not plan.get("create") and not plan.get("destroy")
        return cls(
            hash=sys.intern(plan["hash"]),
            impact=impact,
            applied=impact == "None" and untouched,
            reason=sys.intern(plan.get("reason", "")),
            message=plan.get("message", ""),
        )


@dataclass(frozen=True, slots=True)
class MIGNodeRecord:
    """A MIGNode. ``config`` is empty without ``spec.desired``.

    ``unreadable`` says, and ``reason`` in one word, why nothing can be decided.

    ``config`` to ``paused`` are what ``spec.desired`` says; ``max_impact`` is ``None`` where it says nothing.

    ``reason`` and ``message`` are the agent's last word about the generation ``told_generation``. That is no answer to
    it: ``observed_generation`` also promises that nothing of ours is left.
    """

    name: str
    uid: str
    generation: int = 0
    node_uid: str = ""
    deleting: bool = False
    config: str = ""
    profile: str = ""
    hash: str = ""
    error: str = ""
    drain: Drain = DEFAULT_DRAIN
    max_impact: Impact | None = "EvictPods"
    paused: bool = False
    grant: GrantRecord | None = None
    observed_generation: int = 0
    told_generation: int = 0
    state: GrantStatus | None = None
    plan: PlanRecord | None = None
    slices_missing: bool = False
    ready: bool = False
    reason: str = ""
    message: str = ""
    unreadable: str = ""

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> MIGNodeRecord:
        """Read a MIGNode; one that cannot be understood becomes an ``unreadable`` record instead of an error."""
        metadata = obj["metadata"]
        try:
            return cls._read(obj)
        except ValueError as error:
            return cls(metadata["name"], metadata["uid"], reason=MALFORMED, unreadable=f"{error}")

    @classmethod
    def _read(cls, obj: Mapping[str, Any]) -> MIGNodeRecord:
        metadata, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
        if isinstance(spec, Mapping) and spec.get("schema") != SCHEMA:
            text = f"spec.schema {spec.get('schema')!r} is not a version that this program knows; it knows {SCHEMA}"
            return cls(metadata["name"], metadata["uid"], reason=UNKNOWN_SCHEMA, unreadable=text)
        check_types("MIGNode", "spec", spec)
        check_types("MIGNode", "status", status)
        desired, condition = spec.get("desired") or {}, _condition(obj, READY)
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            node_uid=spec["nodeUID"],
            deleting="deletionTimestamp" in metadata,
            config=sys.intern(desired.get("config", "")),
            profile=sys.intern(desired.get("profile", "")),
            hash=sys.intern(desired.get("hash", "")),
            error=desired.get("error", ""),
            drain=_drain(desired),
            max_impact=desired.get("maxImpact"),
            paused=desired.get("paused", False),
            grant=GrantRecord.from_dict(spec["grant"]) if spec.get("grant") else None,
            observed_generation=status.get("observedGeneration", 0),
            told_generation=condition.get("observedGeneration", 0),
            state=GrantStatus.from_dict(status["grant"]) if status.get("grant") else None,
            plan=PlanRecord.from_dict(status["plan"]) if status.get("plan") else None,
            slices_missing=status.get("slicesMissing", False),
            ready=condition.get("status") == "True",
            reason=sys.intern(condition.get("reason", "")),
            message=condition.get("message", ""),
        )

    @property
    def held(self) -> bool:
        """Whether the agent has taken the node out, or is about to."""
        return self.state is not None and self.state.state == "Held"

    @property
    def released(self) -> bool:
        """Whether nothing of ours is on the node under a grant."""
        return self.state is None or self.state.state == "Released"

    @property
    def carried_out(self) -> bool:
        """Whether the last work under a grant came to its end."""
        return self.state is not None and self.state.result == "Applied"

    @property
    def told(self) -> bool:
        """Whether the agent has seen this generation and says what is in the way, answered or not."""
        return self.told_generation == self.generation and bool(self.reason) and not self.ready

    @property
    def taken_up(self) -> bool:
        """Whether the agent has answered the present grant."""
        return self.grant is not None and self.state is not None and self.state.id == self.grant.id

    @property
    def to_be_stopped(self) -> bool:
        """Whether it has an unrevoked grant that was not carried out; one that was stands, so that repairs go on."""
        return self.grant is not None and not self.grant.revoked and not (self.taken_up and self.released)

    @property
    def holds_slot(self) -> bool:
        """Whether the node holds a slot: it is Held, or has an unrevoked grant with a slot that is not taken up."""
        grant = self.grant
        return self.held or (grant is not None and grant.slot and not grant.revoked and not self.taken_up)


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A MIGConfig; ``wishes`` is ``None`` when ``error`` says why it cannot be read."""

    name: str
    uid: str
    generation: int
    wishes: Wishes | None
    error: str
    observed_generation: int
    nodes: Mapping[str, int]
    conditions: tuple[Condition, ...]

    @property
    def config(self) -> MIGConfig | None:
        """The MIGConfig itself."""
        return None if self.wishes is None else self.wishes.config

    @classmethod
    def from_object(cls, obj: Mapping[str, Any], known: ConfigRecord | None = None) -> ConfigRecord:
        """Read a MIGConfig; the spec of a ``known`` record of the same generation is not validated once more."""
        metadata, status = obj["metadata"], _own_status(obj)
        uid, generation = metadata["uid"], metadata["generation"]
        wishes, error = None, ""
        if known is not None and (known.uid, known.generation) == (uid, generation):
            wishes, error = known.wishes, known.error
        else:
            try:
                wishes = Wishes(MIGConfig.from_dict(_bare(obj)))
            except LayoutError as problem:
                error = f"{problem.reason}: {problem}"
        return cls(
            name=metadata["name"],
            uid=uid,
            generation=generation,
            wishes=wishes,
            error=error,
            observed_generation=status.get("observedGeneration", 0),
            nodes=status.get("nodes") or {},
            conditions=conditions_from_list(status.get("conditions") or ()),
        )


def _bare(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its status: what the controller itself wrote is no reason to refuse a spec."""
    return {key: value for key, value in obj.items() if key != "status"}


def _own_status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """A MIGConfig's status; one that came past the schema counts as none, since all of it is written anew."""
    try:
        return check_types("MIGConfig", "status", obj.get("status", {}))
    except LayoutError:
        return {}


def _drain(half: Mapping[str, Any]) -> Drain:
    found = Drain.from_dict(half.get("drain", {}))
    return DEFAULT_DRAIN if found == DEFAULT_DRAIN else found


def _condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), {})
