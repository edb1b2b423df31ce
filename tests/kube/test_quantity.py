"""Quantities that count."""

from __future__ import annotations

import pytest

from mig_manager.kube.quantity import how_many


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("0", 0),
        (2, 2),
        ("7", 7),
        ("+7", 7),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1E", 10**18),
        ("3e2", 300),
        ("1E+1", 10),
        ("1Ki", 1024),
        ("2Mi", 2 * 1024**2),
    ],
)
def test_every_form_of_a_whole_number(quantity: object, number: int) -> None:
    """Decimal and binary suffixes, and exponents."""
    assert number == how_many(quantity)


@pytest.mark.parametrize("quantity", ["", "1.5", "500m", "-1", "many", "1e", "1K", "9" * 99, None, "1e999"])
def test_what_counts_nothing(quantity: object) -> None:
    """What the API server refuses where devices are counted is no device."""
    assert how_many(quantity) == 0
