"""Documents that were damaged: any value replaced, removed, or put where none was."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

Json = Any
"""What JSON can say."""

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 7, 8, 64, 2**31, 2**32, 2**63, 10**30, 1.0, -0.5, 1e400, float("nan")]),
    st.sampled_from(
        ["", " ", "1g", "1g.10gb", "7g", "max", "-1", "0x", "GPU-1", "\n", "\x00", "\ud800", "é", "x" * 5000]
    ),
    st.text(max_size=8),
)

VALUES: st.SearchStrategy[Json] = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=5), SCALARS, max_size=3),
    st.builds(lambda: [[[]]]),
)


def places(document: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside a document."""
    inside: Iterable[tuple[str | int, Json]] = ()
    if isinstance(document, dict):
        inside = document.items()
    elif isinstance(document, list):
        inside = enumerate(document)
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, document: Json) -> Json:
    """A copy of a document in which one to three values are others, gone, or more."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        choices = list(places(found))
        if not choices:
            break
        *path, last = draw(st.sampled_from(choices))
        parent = found
        for step in path:
            parent = parent[step]
        how = draw(st.integers(0, 7))
        if how == 0:
            del parent[last]
        elif how == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[int(last)]))
        elif how == 1:
            parent[draw(st.text(max_size=6))] = copy.deepcopy(draw(VALUES))
        else:
            parent[last] = copy.deepcopy(draw(VALUES))
    return found


def text_of(document: Json) -> str:
    """The document as a file could hold it, lone surrogates and numbers that are none included."""
    return json.dumps(document)
