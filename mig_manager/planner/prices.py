"""Prices for taking counted entries, so that a bound of single cards knows that every entry must get its cards.

A card that could do something cheaper takes a counted entry only if it is paid to. Prices by which just as many cards
as are needed want each entry are the dual of the assignment problem; the Hungarian method finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_DIGIT = 1 << 32
"""Larger than any part of a cost can become, so that costs can be compared and added as whole numbers."""

_IMPOSSIBLE = _DIGIT**5

Part = tuple[int, int, int, int]
"""A cost, or a difference of costs, by its parts."""

NOTHING: Part = (0, 0, 0, 0)

_FORBIDDEN: Part = (-(1 << 30), 0, 0, 0)
"""The price of what no card can do, because every card is needed for a counted entry."""


def prices(costs: Sequence[Mapping[int | None, Part]], required: Mapping[int, int]) -> dict[int | None, Part]:
    """What each counted entry is paid for a card, given what every card costs with each (``None``: with none of them).

    Where no assignment gives every entry its number, any prices do.
    """
    spare = len(costs) - sum(required.values())
    if not required or spare < 0:
        return {}
    columns = [index for index, number in required.items() for _ in range(number)] + [None] * spare
    duals = _duals([[_number(card[c]) if c in card else _IMPOSSIBLE for c in columns] for card in costs])
    by_entry = dict(zip(columns, duals, strict=True))
    base = by_entry.get(None, 0)
    found: dict[int | None, Part] = {index: _parts(by_entry[index] - base) for index in required if index in by_entry}
    return found if spare else {**found, None: _FORBIDDEN}


def _number(cost: Part) -> int:
    number = 0
    for part in cost:
        number = number * _DIGIT + part
    return number


def _parts(number: int) -> Part:
    """The inverse of ``_number`` for parts of either sign."""
    parts = []
    for _ in NOTHING:
        part = (number + _DIGIT // 2) % _DIGIT - _DIGIT // 2
        parts.append(part)
        number = (number - part) // _DIGIT
    return parts[3], parts[2], parts[1], parts[0]


def _duals(costs: Sequence[Sequence[int]]) -> list[int]:
    """The dual variables of the columns of a square assignment problem.

    Rows enter one after the other along the shortest path of reduced costs (Kuhn, Munkres; in the form with
    potentials, of cubic time). Column ``size`` is the one from which the entering row starts.
    """
    size = len(costs)
    of_row, of_column = [0] * size, [0] * (size + 1)
    row_of = [-1] * (size + 1)
    for entering in range(size):
        row_of[size] = entering
        column, done = size, [False] * (size + 1)
        slack, before = [_IMPOSSIBLE * _DIGIT] * size, [size] * size
        while row_of[column] >= 0:
            done[column] = True
            row = row_of[column]
            for c in range(size):
                reduced = costs[row][c] - of_row[row] - of_column[c]
                if not done[c] and reduced < slack[c]:
                    slack[c], before[c] = reduced, column
            nearest = min((c for c in range(size) if not done[c]), key=slack.__getitem__)
            step = slack[nearest]
            for c in range(size + 1):
                if done[c]:
                    of_row[row_of[c]] += step
                    of_column[c] -= step
                elif c < size:
                    slack[c] -= step
            column = nearest
        while column != size:
            row_of[column] = row_of[before[column]]
            column = before[column]
        row_of[size] = -1
    return of_column[:size]
