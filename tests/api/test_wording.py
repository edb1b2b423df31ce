"""Texts are fitted into a limit, and say when something was left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mig_manager.wording import MESSAGE_LIMIT, shortened


@given(st.text(), st.integers(1, 20))
def test_never_longer_than_the_limit(text: str, limit: int) -> None:
    """What fits stays as it is; of what does not fit the beginning stays, with a mark."""
    found = shortened(text, limit)

    assert len(found) <= limit
    assert found == (text if len(text) <= limit else f"{text[: limit - 1]}…")


def test_messages_fit_without_being_told() -> None:
    """The limit is that of messages, if no other one is named."""
    assert "x" * MESSAGE_LIMIT == shortened("x" * MESSAGE_LIMIT)
    assert MESSAGE_LIMIT == len(shortened("x" * (MESSAGE_LIMIT + 1)))
