"""Layouts for A100-SXM4-80GB cards, between which a 3g slice stays and the other one makes room for small ones.

Three of them, because behind a 3g at 0 there is no room for a fourth: either of the two can stay.
"""

from __future__ import annotations

from typing import Any

WIDE = {"3g.40gb": 2}
NARROW = {"3g.40gb": 1, "1g.10gb": 3}
SEVEN = {"1g.10gb": 7}

PROFILES: dict[str, Any] = {
    "wide": {"gpus": [{"slices": [{"slice": "3g.40gb", "count": 2}]}]},
    "narrow": {"gpus": [{"slices": [{"slice": "3g.40gb", "count": 1}, {"slice": "1g.10gb", "count": 3}]}]},
}


def both(slices: dict[str, int]) -> dict[str, int]:
    """The slices of two such cards."""
    return {name: 2 * count for name, count in slices.items()}
