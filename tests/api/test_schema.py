"""Validation is what the CRD schemas say, rule by rule, with errors that show path, value and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from mig_manager.api.rules import RULES
from mig_manager.api.schema import (
    Kind,
    crd_schema,
    format_path,
    layout_schema,
    object_problems,
    validate,
    validate_layout,
)
from mig_manager.geometry.errors import LayoutError
from mig_manager.resources import shipped
from tests.api.examples import ACCEPTED, REFUSED, VALID, Case, slices

KINDS: tuple[Kind, ...] = ("MIGConfig", "MIGNode")


def schemas_below(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas_below(field, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from schemas_below(schema[name], f"{path}[]")


def refused(obj: object, kind: Kind = "MIGConfig") -> LayoutError:
    with pytest.raises(LayoutError) as caught:
        validate(obj, kind)
    return caught.value


def test_every_rule_has_its_mirror() -> None:
    """The CEL rules of the schemas and the table of rules in Python are the same set."""
    stated = {
        rule["rule"]
        for kind in KINDS
        for _, schema in schemas_below(crd_schema(kind), kind)
        for rule in schema.get("x-kubernetes-validations", ())
    }
    assert stated == set(RULES)


def test_every_rule_refuses_an_example() -> None:
    """Each rule, alone, refuses one of the examples: no rule is without a case."""
    silent = {
        (rule["rule"], rule["message"])
        for _, s in schemas_below(crd_schema("MIGConfig"), "")
        for rule in s.get("x-kubernetes-validations", ())
    }
    for case in REFUSED:
        for problem in object_problems(case.object, "MIGConfig"):
            silent = {(rule, message) for rule, message in silent if not problem.problem.startswith(message)}
    assert set() == silent


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.name)
def test_accepted(case: Case) -> None:
    """What the language allows passes."""
    assert [] == list(object_problems(case.object, "MIGConfig"))


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_refused(case: Case) -> None:
    """What the language does not allow is refused at its path, by its rule."""
    error = refused(case.object)
    assert (case.path, "InvalidSpec") == (error.path, error.reason)
    assert case.message in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: Kind) -> None:
    """There are words for kubectl explain on every field; the API server allows none on metadata."""
    silent = [
        path
        for path, schema in schemas_below(crd_schema(kind), kind)
        if "description" not in schema and path != f"{kind}.metadata" and not path.endswith("[]")
    ]
    assert [] == silent


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_bounded(kind: Kind) -> None:
    """Every list, map and text of a spec has an upper bound, without which CEL rules are refused as too costly."""
    bounds = {"array": "maxItems", "string": "maxLength"}
    unbounded = []
    for path, schema in schemas_below(crd_schema(kind)["properties"]["spec"], kind):
        bound = "maxProperties" if "additionalProperties" in schema else bounds.get(schema.get("type", "object"))
        if bound and bound not in schema and "enum" not in schema:
            unbounded.append(path)
    assert [] == unbounded


def without_rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in schema.items() if key != "x-kubernetes-validations"}
    if "properties" in made:
        made["properties"] = {name: without_rules(field) for name, field in made["properties"].items()}
    if "items" in made:
        made["items"] = without_rules(made["items"])
    return made


@pytest.mark.parametrize("half", ["desired", "grant"])
def test_layouts_are_the_same_everywhere(half: str) -> None:
    """A MIGNode can hold every layout that a MIGConfig can say."""
    node = crd_schema("MIGNode")["properties"]["spec"]["properties"][half]["properties"]["layout"]
    assert without_rules(layout_schema()["properties"]["gpus"]) == without_rules(node["properties"]["gpus"])


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_of_objects_hold_those_of_their_fields(kind: Kind) -> None:
    """A default on an object says what the defaults of its fields say, so it does not matter which one applies."""
    for path, schema in schemas_below(crd_schema(kind), kind):
        if isinstance(schema.get("default"), dict):
            fields = {n: f["default"] for n, f in schema["properties"].items() if "default" in f}
            assert fields == schema["default"], path


def test_defaults_are_filled_in() -> None:
    """An object comes back as the API server would store it."""
    spec = validate(VALID, "MIGConfig")["spec"]
    consents = {"jobs": "WaitForCompletion", "force": False, "deleteEmptyDirData": False}
    drain = {**consents, "timeoutSeconds": 900, "onTimeout": "Abort"}
    assert {"maxUnavailable": 1, "maxImpact": "EvictPods", "drain": drain} == spec["disruption"]
    assert ("Auto", "OnFailure", False) == (spec["devicePluginStrategy"], spec["rollback"], spec["paused"])
    assert "disruption" not in VALID["spec"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            slices({"slice": "1g"}, {"slice": "3gg"}),
            (
                "spec.profiles.two.x.gpus[0].slices[1].slice: '3gg' is not a slice name; "
                "write it like 1g.10gb, 3g, 1g+me or 1c.3g.40gb"
            ),
        ),
        ({"profles": {}}, "spec.profles: there is no such field; did you mean profiles?"),
        (
            {"disruption": {"zzz": 1}},
            "spec.disruption.zzz: there is no such field; there are maxUnavailable, maxImpact, drain",
        ),
        ({"rollback": "never"}, "spec.rollback: 'never' is not known here; it is one of OnFailure, Never"),
        ({"paused": "yes"}, "spec.paused: 'yes' is not true or false"),
        (
            {"profiles": {"a": {"gpus": [{"match": {"deviceIDs": [8370]}}]}}},
            "spec.profiles.a.gpus[0].match.deviceIDs[0]: 8370 is not text; write it in quotes, like '0x20B2'",
        ),
        (
            slices({"slice": "1g", "count": 9}),
            "spec.profiles.two.x.gpus[0].slices[0].count: count is 1 to 7, or max (found 9)",
        ),
        ({"profile": "a b"}, "spec.profile: 'a b' cannot be read; write it like all-balanced"),
        ({"profile": ""}, "spec.profile: this must not be empty"),
        ({"profile": "a" * 70}, f"spec.profile: '{'a' * 58}… is longer than 63 characters"),
        ({"profiles": {"a": {"gpus": []}}}, "spec.profiles.a.gpus: this list must not be empty"),
        (
            {"profiles": {"a": {"gpus": [{"mig": "Disabled"}] * 17}}},
            "spec.profiles.a.gpus: there are more than 16 items",
        ),
        (
            {"disruption": {"drain": {"timeoutSeconds": 0}}},
            "spec.disruption.drain.timeoutSeconds: 0 is less than 1",
        ),
        (
            {"disruption": {"drain": {"timeoutSeconds": 999999}}},
            "spec.disruption.drain.timeoutSeconds: 999999 is more than 604800",
        ),
        (
            {"nodeSelector": {"matchLabels": {str(n): "" for n in range(33)}}},
            "spec.nodeSelector.matchLabels: there are more than 32 fields",
        ),
        ({"profiles": {"a": {"gpus": [{"match": {}}]}}}, "spec.profiles.a.gpus[0].match: this must not be empty"),
    ],
)
def test_messages(spec: dict[str, Any], line: str) -> None:
    """A problem is one line that says where, what, and what to do instead."""
    assert line == str(refused(Case("", spec).object))


def test_a_misspelt_field_is_told_before_the_missing_one() -> None:
    """The field profle is reported, not that profile is missing; both are listed."""
    obj = {**VALID, "spec": {"nodeSelector": {"matchLabels": {"a": "b"}}, "profle": "x"}}
    assert ["spec.profle", "spec.profile"] == [p.path for p in object_problems(obj, "MIGConfig")]


def test_problems_come_in_the_order_of_the_file() -> None:
    """Every problem is listed, from the top of the file down."""
    spec = {"rollback": "x", **slices({"slice": "1gg"}, {"slice": "2gg"}), "paused": 1}
    found = [p.path.rpartition(".gpus")[2] for p in object_problems(Case("", spec).object, "MIGConfig")]
    assert ["spec.rollback", "[0].slices[0].slice", "[0].slices[1].slice", "spec.paused"] == found


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"apiVersion": "migmanager.io/v1"}, "apiVersion: 'migmanager.io/v1' is not migmanager.io/v1alpha1"),
        ({"kind": "MIGNode"}, "kind: 'MIGNode' is not MIGConfig"),
        ({"metadata": {}}, "metadata.name: a name is missing"),
        ({"metadata": {"name": "a" * 64}}, f"metadata.name: '{'a' * 58}… is longer than 63 characters"),
        ({"spec": 1}, "spec: 1 is not a mapping"),
        ({"Spec": {}}, "Spec: there is no such field; did you mean spec?"),
    ],
)
def test_what_surrounds_the_spec(change: dict[str, Any], line: str) -> None:
    """Kind, version and name are checked; the rest of the metadata is the API server's business."""
    assert line == str(refused({**VALID, **change}))
    assert [] == list(object_problems({**VALID, "metadata": {"name": "a", "labels": {"x": "y"}}}, "MIGConfig"))


def test_not_even_a_mapping() -> None:
    """Anything else than a mapping is refused as such."""
    assert "[] is not a mapping" == str(refused([]))


def test_layouts_are_validated_alone() -> None:
    """A layout without a MIGConfig around it is judged by the same schema, below the path given."""
    with pytest.raises(LayoutError, match=re.escape("here.gpus[0].slices[0].count: count is 1 to 7")):
        validate_layout({"gpus": [{"slices": [{"slice": "1g", "count": 8}]}]}, "here")
    assert 1 == validate_layout({"gpus": [{"slices": [{"slice": "1g"}]}]})["gpus"][0]["slices"][0]["count"]


def test_paths() -> None:
    """Lists are indexed in brackets, fields joined by dots."""
    assert "a.b[0][1].c" == format_path(["a", "b", 0, 1, "c"])


@pytest.mark.parametrize(
    ("kind", "columns", "wide"),
    [
        ("migconfig", "Profile Nodes Ready Updating Blocked Failed Status Age Message", "Profile Message"),
        ("mignode", "Config Profile Step GPUs Slices Impact Status Age Message", "Config Step GPUs Slices Message"),
    ],
)
def test_columns(kind: str, columns: str, wide: str) -> None:
    """What tells at a glance how things stand is in kubectl get; what is long, or stands elsewhere, needs -o wide."""
    definition = yaml.safe_load(shipped("crds").joinpath(f"{kind}.yaml").read_text(encoding="utf-8"))
    shown = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    assert columns.split() == [column["name"] for column in shown]
    assert wide.split() == [column["name"] for column in shown if column.get("priority")]
