"""Exact placement on one card: do these GPU instances fit around what is there, and where are they best put?

The grids are tiny (at most 78 maximal layouts), so everything is enumerated; results are remembered, because the
cards of a fleet ask the same few questions over and over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from mig_manager.geometry.profiles import ProfileTable

Counts = tuple[tuple[int, int], ...]
"""How many of which profile: ``((profile id, number), ...)`` in canonical order."""

_ENGINES = ("decoder", "jpeg", "ofa")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Starts per profile, in the order of the counts asked for, and how many choices stay open afterwards."""

    starts: tuple[tuple[int, ...], ...]
    openness: int


def counts_of(table: ProfileTable, profile_ids: Iterable[int]) -> Counts:
    """Canonical counts: largest profiles first, so that the search fails early."""
    return tuple(sorted(Counter(profile_ids).items(), key=lambda c: (-table[c[0]].size, c[0])))


@lru_cache(maxsize=100_000)
def arrange(table: ProfileTable, occupied: int, counts: Counts) -> Arrangement | None:
    """The best places for ``counts`` on a card whose ``occupied`` units are taken; ``None`` if they do not fit.

    Best keeps most later choices open: the greatest number of (profile, start) pairs that remain possible, as the
    driver itself chooses. Among equals the lowest starts win.
    """
    if not counts:
        return Arrangement((), openness(table, occupied))
    (profile_id, number), rest = counts[0], counts[1:]
    free = [p for p in table[profile_id].placements if not p.mask & occupied]
    best: Arrangement | None = None
    for chosen in combinations(free, number):
        mask = occupied
        for placement in chosen:
            if placement.mask & mask:
                break
            mask |= placement.mask
        else:
            inner = arrange(table, mask, rest)
            if inner is not None and (best is None or inner.openness > best.openness):
                best = Arrangement((tuple(p.start for p in chosen), *inner.starts), inner.openness)
    return best


@lru_cache(maxsize=4096)
def openness(table: ProfileTable, occupied: int) -> int:
    """How many (profile, start) pairs are still possible when ``occupied`` units are taken."""
    return sum(not p.mask & occupied for profile in table for p in profile.placements)


@lru_cache(maxsize=4096)
def within_engine_limits(table: ProfileTable, counts: Counts) -> bool:
    """Whether the card has the engines for this multiset; placements aside, nothing else can be short.

    There is one OFA on most cards, so one media-extension instance; ``+me.all`` takes every decoder, so only ``-me``
    instances go beside it. On a card that does not tell its engines, the driver's instance counts decide.
    """
    if any(number > table[profile_id].instance_count for profile_id, number in counts):
        return False
    totals = table.engine_totals
    for kind in _ENGINES:
        total = getattr(totals, kind)
        if total is not None and sum(getattr(table[p].engines, kind) * n for p, n in counts) > total:
            return False
    return True


def feasible(table: ProfileTable, counts: Counts) -> bool:
    """Whether that multiset can exist on the card when nothing else is there."""
    return within_engine_limits(table, counts) and arrange(table, 0, counts) is not None
