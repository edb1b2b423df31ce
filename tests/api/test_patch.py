"""A merge patch brings an object to what it shall be, and says nothing when there is nothing to say."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.api.patch import merge_patch

Json = dict[str, Any]

names = st.sampled_from("abcd")
leaves = st.booleans() | st.integers(2, 4) | st.text("xy", max_size=1) | st.lists(st.integers(0, 1), max_size=2)
objects: st.SearchStrategy[Json] = st.dictionaries(
    names, st.recursive(leaves, lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=6), max_size=3
)


def applied(patch: Json, target: object) -> Json:
    """The algorithm of RFC 7386, section 2."""
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(value, result.get(name)) if isinstance(value, dict) else value
    return result


@settings(max_examples=100, deadline=None)
@given(objects, objects)
def test_the_patch_leads_there(before: Json, after: Json) -> None:
    """Applied to the former object, the patch gives the wanted one."""
    assert after == applied(merge_patch(before, after), before)


@settings(max_examples=50, deadline=None)
@given(objects)
def test_equal_objects_need_no_patch(obj: Json) -> None:
    """Nothing is sent where nothing changes."""
    assert {} == merge_patch(obj, obj)


def test_what_is_gone_is_sent_as_null() -> None:
    """Only the difference is sent."""
    before = {"spec": {"schema": 1, "desired": {"hash": "a"}, "grant": {"id": 1, "slot": True}}}
    after = {"spec": {"schema": 1, "grant": {"id": 1, "slot": False}}}
    assert {"spec": {"desired": None, "grant": {"slot": False}}} == merge_patch(before, after)
