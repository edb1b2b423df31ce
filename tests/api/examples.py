"""Objects that are accepted and objects that are refused, for both judges: the API server and ours.

Each case changes one thing in a small valid MIGConfig.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mig_manager.api.conditions import Condition
from mig_manager.api.migconfig import Drain
from mig_manager.api.mignode import Desired, Grant, MIGNodeSpec
from mig_manager.api.mignode_status import GpuStatus, GrantStatus, MIGNodeStatus, PlanStatus, Summary
from mig_manager.api.selector import LabelSelector, Requirement
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName

VALID: dict[str, Any] = {
    "apiVersion": "migmanager.io/v1alpha1",
    "kind": "MIGConfig",
    "metadata": {"name": "pool"},
    "spec": {"nodeSelector": {"matchLabels": {"pool": "a"}}, "profile": "all-balanced"},
}


@dataclass(frozen=True)
class Case:
    """``spec`` replaces fields of the valid object's spec; ``path`` is where the problem lies, ``None`` if accepted."""

    name: str
    spec: dict[str, Any]
    path: str | None = None
    message: str = ""

    @property
    def object(self) -> dict[str, Any]:
        """The whole object."""
        made = copy.deepcopy(VALID)
        made["spec"].update(copy.deepcopy(self.spec))
        return made


def entries(*gpus: Any) -> dict[str, Any]:  # noqa: ANN401 - also wrong ones
    return {"profiles": {"two.x": {"gpus": list(gpus)}}}


def slices(*items: Any) -> dict[str, Any]:  # noqa: ANN401 - also wrong ones
    return entries({"slices": list(items)})


def matching(**match: Any) -> dict[str, Any]:  # noqa: ANN401 - also wrong ones
    return entries({"match": match, "slices": []})


def expression(**term: Any) -> dict[str, Any]:  # noqa: ANN401 - also wrong ones
    return {"nodeSelector": {"matchExpressions": [{"key": "pool", **term}]}}


GPUS = "spec.profiles.two.x.gpus"
SLICE = f"{GPUS}[0].slices[0]"
UUID = "GPU-7a5b1c9e-0c1d-4a53-9d36-0f4b8a6d2e11"

ACCEPTED = [
    Case("the smallest", {}),
    Case("counts 1 to 7", slices({"slice": "1g", "count": 7}, {"slice": "2g", "count": 1})),
    Case("one max", slices({"slice": "3g"}, {"slice": "1g", "count": "max"})),
    Case("a pin", slices({"slice": "3g.40gb", "start": 4})),
    Case("a pin that says 1", slices({"slice": "3g.40gb", "start": 4, "count": 1})),
    Case("compute instances", slices({"slice": "3g.40gb", "compute": ["1c", "2c"]})),
    Case("a compute part", slices({"slice": "1c.3g.40gb", "count": 3})),
    Case("a full compute part", slices({"slice": "7c.7g.80gb"})),
    Case("double memory", slices({"slice": "1g", "memory": "double"})),
    Case("attributes", slices({"slice": "1g.24gb+me.all"}, {"slice": "2g-me"}, {"slice": "1g+gfx,me"})),
    Case("an empty MIG card", entries({"slices": []})),
    Case("MIG off", entries({"mig": "Disabled"})),
    Case("left alone", entries({"match": {"indices": [0]}, "mig": "Unmanaged"})),
    Case("a limited entry", entries({"count": 2, "slices": [{"slice": "7g"}]})),
    Case(
        "device ids", matching(deviceIDs=["0x20B2", "20b2", "0X20B210DE", "20B210de:147F10DE", "0x20B210DE:0x147F10DE"])
    ),
    Case("bus ids", matching(busIDs=["07:00.0", "0000:07:00.0", "00000000:3B:00.0"])),
    Case("other matches", matching(models=["A30"], uuids=[UUID], indices=[0, 7], memoryMiB=81920, computeSlices=7)),
    Case("a percentage", {"disruption": {"maxUnavailable": "100%"}}),
    Case("a number", {"disruption": {"maxUnavailable": 30}}),
    Case("nothing may happen", {"disruption": {"maxImpact": "None"}}),
    Case("null is absent", {"disruption": {"drain": {"gracePeriodSeconds": None}}}),
    Case(
        "protected pods and consents",
        {
            "disruption": {
                "drain": {
                    "jobs": "Evict",
                    "onTimeout": "Wait",
                    "force": True,
                    "deleteEmptyDirData": True,
                    "protectedPods": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
                }
            }
        },
    ),
    Case("an expression", expression(operator="In", values=["a"])),
    Case("an expression without values", expression(operator="Exists")),
    Case("an expression with empty values", expression(operator="DoesNotExist", values=[])),
    Case("a profile with words", {"profiles": {"a": {"description": "d", "sources": ["s"], "gpus": [{"slices": []}]}}}),
]

REFUSED = [
    Case("no term", {"nodeSelector": {}}, "spec.nodeSelector", "empty selector"),
    Case("empty terms", {"nodeSelector": {"matchLabels": {}, "matchExpressions": []}}, "spec.nodeSelector", "empty"),
    Case(
        "In without values",
        expression(operator="In"),
        "spec.nodeSelector.matchExpressions[0].values",
        "In and NotIn need values",
    ),
    Case(
        "Exists with values",
        expression(operator="Exists", values=["a"]),
        "spec.nodeSelector.matchExpressions[0].values",
        "Exists and DoesNotExist have none",
    ),
    Case("an unknown operator", expression(operator="Gt"), "spec.nodeSelector.matchExpressions[0].operator"),
    Case("a profile name with a blank", {"profile": "all balanced"}, "spec.profile"),
    Case("an empty profile name", {"profile": ""}, "spec.profile"),
    Case("a long profile name", {"profile": "a" * 64}, "spec.profile"),
    Case("a line break behind the name", {"profile": "all-balanced\n"}, "spec.profile"),
    Case("an own profile that no label can name", {"profiles": {"a+b": {"gpus": [{"slices": []}]}}}, "spec.profiles"),
    Case("an own profile with a long name", {"profiles": {"a" * 64: {"gpus": [{"slices": []}]}}}, "spec.profiles"),
    Case("no entries", entries(), GPUS),
    Case("no gpus", {"profiles": {"two": {}}}, "spec.profiles.two.gpus"),
    Case("no slices", entries({}), f"{GPUS}[0]", "slices is missing"),
    Case("slices with MIG off", entries({"mig": "Disabled", "slices": []}), f"{GPUS}[0].slices", "has no slices here"),
    Case("slices unmanaged", entries({"mig": "Unmanaged", "slices": []}), f"{GPUS}[0].slices", "has no slices here"),
    Case("an unknown mode", entries({"mig": "On", "slices": []}), f"{GPUS}[0].mig"),
    Case("an empty match", matching(), f"{GPUS}[0].match"),
    Case("an unknown match", matching(serials=["1"]), f"{GPUS}[0].match.serials"),
    Case("a device id of another vendor", matching(deviceIDs=["0x20B21002"]), f"{GPUS}[0].match.deviceIDs[0]"),
    Case("a device id as a number", matching(deviceIDs=[8370]), f"{GPUS}[0].match.deviceIDs[0]"),
    Case("a bus id without a function", matching(busIDs=["07:00"]), f"{GPUS}[0].match.busIDs[0]"),
    Case("a MIG UUID", matching(uuids=["MIG-" + UUID[4:]]), f"{GPUS}[0].match.uuids[0]"),
    Case("a negative index", matching(indices=[-1]), f"{GPUS}[0].match.indices[0]"),
    Case("an entry for no card", entries({"count": 0, "slices": []}), f"{GPUS}[0].count"),
    Case("not a slice name", slices({"slice": "3gg"}), f"{SLICE}.slice"),
    Case("a slice name in capitals", slices({"slice": "1G.10GB"}), f"{SLICE}.slice"),
    Case("no slice name", slices({"count": 2}), f"{SLICE}.slice"),
    Case("more compute than GPU", slices({"slice": "4c.3g.40gb"}), f"{SLICE}.slice", "at most as many slices"),
    Case("count 0", slices({"slice": "1g", "count": 0}), f"{SLICE}.count", "1 to 7, or max"),
    Case("count 8", slices({"slice": "1g", "count": 8}), f"{SLICE}.count", "1 to 7, or max"),
    Case("count in words", slices({"slice": "1g", "count": "all"}), f"{SLICE}.count", "1 to 7, or max"),
    Case("count as text", slices({"slice": "1g", "count": "2"}), f"{SLICE}.count", "1 to 7, or max"),
    Case("count with a fraction", slices({"slice": "1g", "count": 1.5}), f"{SLICE}.count"),
    Case("count yes", slices({"slice": "1g", "count": True}), f"{SLICE}.count"),
    Case(
        "max twice",
        slices({"slice": "1g", "count": "max"}, {"slice": "2g", "count": "max"}),
        f"{GPUS}[0].slices",
        "once",
    ),
    Case("a pin of two", slices({"slice": "1g", "count": 2, "start": 0}), f"{SLICE}.start", "count is 1"),
    Case("a pin of max", slices({"slice": "1g", "count": "max", "start": 0}), f"{SLICE}.start", "count is 1"),
    Case(
        "a pinned compute part", slices({"slice": "1c.3g", "start": 0}), f"{SLICE}.start", "start places a GPU instance"
    ),
    Case("max of a compute part", slices({"slice": "1c.3g", "count": "max"}), f"{SLICE}.count", "max counts GPU"),
    Case("compute twice", slices({"slice": "1c.3g", "compute": ["1c"]}), f"{SLICE}.compute", "already has a compute"),
    Case("too much compute", slices({"slice": "3g", "compute": ["2c", "2c"]}), f"{SLICE}.compute", "more slices than"),
    Case("compute as numbers", slices({"slice": "3g", "compute": [1]}), f"{SLICE}.compute[0]"),
    Case("no compute at all", slices({"slice": "3g", "compute": []}), f"{SLICE}.compute"),
    Case("double memory of 2g", slices({"slice": "2g", "memory": "double"}), f"{SLICE}.memory", "slice 1g only"),
    Case(
        "double memory of a full name", slices({"slice": "1g.10gb", "memory": "double"}), f"{SLICE}.memory", "1g only"
    ),
    Case("half memory", slices({"slice": "1g", "memory": "half"}), f"{SLICE}.memory"),
    Case("no node at a time", {"disruption": {"maxUnavailable": 0}}, "spec.disruption.maxUnavailable", "at least 1"),
    Case("0%", {"disruption": {"maxUnavailable": "0%"}}, "spec.disruption.maxUnavailable", "1% to 100%"),
    Case("101%", {"disruption": {"maxUnavailable": "101%"}}, "spec.disruption.maxUnavailable", "1% to 100%"),
    Case("a number as text", {"disruption": {"maxUnavailable": "3"}}, "spec.disruption.maxUnavailable", "1% to 100%"),
    Case("an unknown impact", {"disruption": {"maxImpact": "Evict"}}, "spec.disruption.maxImpact"),
    Case("no time to drain", {"disruption": {"drain": {"timeoutSeconds": 0}}}, "spec.disruption.drain.timeoutSeconds"),
    Case("an unknown end", {"disruption": {"drain": {"onTimeout": "Force"}}}, "spec.disruption.drain.onTimeout"),
    Case("unknown words for jobs", {"disruption": {"drain": {"jobs": "Wait"}}}, "spec.disruption.drain.jobs"),
    Case("consent as text", {"disruption": {"drain": {"force": "yes"}}}, "spec.disruption.drain.force"),
    Case(
        "no grace",
        {"disruption": {"drain": {"gracePeriodSeconds": 0}}},
        "spec.disruption.drain.gracePeriodSeconds",
    ),
    Case(
        "nobody protected by nothing",
        {"disruption": {"drain": {"protectedPods": {"matchLabels": {}}}}},
        "spec.disruption.drain.protectedPods",
        "leave protectedPods out",
    ),
    Case("an unknown strategy", {"devicePluginStrategy": "mixed"}, "spec.devicePluginStrategy"),
    Case("an unknown rollback", {"rollback": "Always"}, "spec.rollback"),
    Case("paused as text", {"paused": "yes"}, "spec.paused"),
    Case("not a label", {"nodeProfileLabel": "a/b/c"}, "spec.nodeProfileLabel"),
    Case("a field of a later release", {"canary": {}}, "spec.canary"),
]

# A MIGNode in which every field is filled.
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
LAYOUT = Layout((GpuEntry((SliceRequest(SliceName(1), "max"),)),), "all-1g")
PROTECTED = LabelSelector((("tier", "gold"),), (Requirement("team", "Exists"), Requirement("app", "In", ("a", "b"))))
SPEC = MIGNodeSpec(
    "1234-uid",
    Desired("pool", 3, "all-1g", "ab12", LAYOUT, "Mixed", "", Drain(force=True), "FreeSlices", paused=True),
    Grant(
        *(41, "controller-7", "ab12", LAYOUT),
        slot=True,
        revoked=True,
        strategy="Mixed",
        max_impact="FreeSlices",
        drain=Drain(60, "Wait", 30, "Evict", PROTECTED, force=True, delete_empty_dir_data=True),
        rollback="Never",
        config="pool",
    ),
)
STATUS = MIGNodeStatus(
    observed_generation=9,
    grant=GrantStatus(41, "Released", "RolledBack", "CreateFailed", "creating ...", NOON),
    plan=PlanStatus("ab12", "EvictPods", 5, 2, 1, ("team/pod-0",), 11, "", "one pod"),
    gpus=(
        GpuStatus(
            0, "GPU-0", "H100-SXM5-80GB", "0000:07:00.0", 81559, "Enabled", "Disabled", ("3g.40gb@4", "1g.10gb@0")
        ),
        GpuStatus(1, "GPU-1", "T4"),
    ),
    summary=Summary("1x H100-SXM5-80GB, 1x T4", "1x 3g.40gb, 1x 1g.10gb"),
    slices_missing=True,
    resources={"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 1},
    step="drain",
    since=NOON,
    boot_id="boot",
    conditions=(Condition("Ready", "False", "Draining", "waiting for team/pod-0", NOON, 9),),
)


def mignode(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "77", "generation": 9}
    obj = {"apiVersion": "migmanager.io/v1alpha1", "kind": "MIGNode", "metadata": metadata, "spec": spec}
    return obj if status is None else {**obj, "status": status}
