"""Patches as the API server applies them."""

from __future__ import annotations

import copy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.kube.memory import patches

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~"]), JSON, max_size=3)

# The examples of RFC 7386, appendix A.
RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), RFC_7386)
def test_merge_as_in_the_rfc(target: object, patch: object, expected: object) -> None:
    """Every example of RFC 7386 comes out as printed there."""
    before = copy.deepcopy(target)
    assert expected == patches.merge(target, patch)
    assert before == target


@given(OBJECTS, OBJECTS)
def test_json_patch_agrees_with_the_library(before: dict[str, object], after: dict[str, object]) -> None:
    """What the jsonpatch package computes as difference leads from one object to the other."""
    operations = list(jsonpatch.make_patch(before, after))
    assumed = [operation for operation in operations if operation["op"] not in ("move", "copy")]
    if assumed == operations:
        assert after == patches.json_patch(before, operations)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/list/1", "value": "x"}, ["a", "x", "b"]),
        ({"op": "add", "path": "/list/-", "value": "x"}, ["a", "b", "x"]),
        ({"op": "remove", "path": "/list/0"}, ["b"]),
        ({"op": "replace", "path": "/list/1", "value": "x"}, ["a", "x"]),
        ({"op": "test", "path": "/list/1", "value": "b"}, ["a", "b"]),
    ],
)
def test_json_patch_on_lists(operation: dict[str, object], expected: list[str]) -> None:
    """Insert, append, remove, replace and test by position."""
    assert {"list": expected} == patches.json_patch({"list": ["a", "b"]}, [operation])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "test", "path": "/list/0", "value": "b"},
        {"op": "move", "from": "/list", "path": "/other"},
    ],
)
def test_json_patch_that_cannot_be_applied(operation: dict[str, object]) -> None:
    """A place that is not there, a test that fails or an operation that is not known leaves all as it was."""
    target = {"list": ["a", "b"], "text": "t"}
    with pytest.raises(patches.PatchError):
        patches.json_patch(target, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert {"list": ["a", "b"], "text": "t"} == target


CONDITIONS = {"status": {"conditions": [{"type": "A", "status": "1", "reason": "r"}, {"type": "B", "status": "1"}]}}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([{"type": "A", "status": "2"}], [{"type": "A", "status": "2", "reason": "r"}, {"type": "B", "status": "1"}]),
        ([{"type": "A", "reason": None}], [{"type": "A", "status": "1"}, {"type": "B", "status": "1"}]),
        ([{"type": "C"}], [*CONDITIONS["status"]["conditions"], {"type": "C"}]),
        ([{"type": "A", "$patch": "delete"}], [{"type": "B", "status": "1"}]),
        ([{"$patch": "replace"}, {"type": "C"}], [{"type": "C"}]),
    ],
)
def test_strategic_merge_by_key(conditions: list[object], expected: list[object]) -> None:
    """Items are found by their merge key, changed, added, deleted or replaced as a whole."""
    result = patches.strategic_merge(CONDITIONS, {"status": {"conditions": conditions}})
    assert expected == result["status"]["conditions"]


def test_strategic_merge_without_the_key() -> None:
    """An item without its merge key cannot be placed."""
    with pytest.raises(patches.PatchError, match=r"status\.conditions: map does not contain key type"):
        patches.strategic_merge({}, {"status": {"conditions": [{"status": "1"}]}})


def test_strategic_merge_of_finalizers_is_their_union() -> None:
    """Finalizers are a set; other lists of plain values are replaced."""
    target = {"metadata": {"finalizers": ["a"]}, "spec": {"podCIDRs": ["x"]}}
    patch = {"metadata": {"finalizers": ["b", "a"]}, "spec": {"podCIDRs": ["y"]}}
    expected = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"podCIDRs": ["y"]}}
    assert expected == patches.strategic_merge(target, patch)


def test_strategic_merge_can_replace_a_map() -> None:
    """The directive replaces what merging would keep."""
    target = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    patch = {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}
    assert {"metadata": {"labels": {"c": "3"}}} == patches.strategic_merge(target, patch)
