"""Quantities of the API that count something: Kubernetes writes 1000 devices as ``1k``."""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(r"\+?([0-9]{1,15})([kMGTPE]|[KMGTPE]i|[eE]\+?[0-9]{1,2})?")
_DECIMAL = {unit: 1000**n for n, unit in enumerate(("", *"kMGTPE"))}
_BINARY = {f"{unit}i": 1024**n for n, unit in enumerate("KMGTPE", 1)}
_TIMES: dict[str, int] = _DECIMAL | _BINARY


def how_many(quantity: object) -> int:
    """The number; 0 for what is none, and for fractions, which the API server refuses where devices are counted.

    Source: the serialisation format of ``Quantity`` in Kubernetes' apimachinery.
    """
    found = _FORM.fullmatch(str(quantity))
    if found is None:
        return 0
    number, suffix = int(found[1]), found[2] or ""
    return number * (_TIMES[suffix] if suffix in _TIMES else int(Decimal(f"1{suffix}")))
