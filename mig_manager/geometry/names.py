"""The grammar of slice names and the rule that computes them.

``[<C>c.]<G>g[.<GB>gb][+attr[,attr...]|-attr[,attr...]]``, as nvidia-smi prints and mig-parted reads it:
``1g.10gb``, ``1c.3g.40gb``, ``1g.24gb+me.all``, ``2g.48gb-me``. Without ``.<GB>gb`` a name is a portable
shape that every card resolves for itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil, floor

from mig_manager.geometry.errors import LayoutError

_NAME = re.compile(r"(?:(?P<compute>[1-9])c\.)?(?P<gpu>[1-9])g(?:\.(?P<gb>\d{1,4})gb)?(?P<attributes>[+-][a-z].*)?")
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*")
_SHARE_OF_MEMORY = 8  # names count memory in eighths of the card, on every grid

MEMORY_TOLERANCE = 0.02
"""Drivers and ECC settings move the memory that a card reports by a percent or so; this much is the same card."""


@dataclass(frozen=True, slots=True)
class SliceName:
    """A parsed slice name.

    ``compute`` is ``None`` when the compute instance is as wide as its GPU instance; ``memory_gb`` is
    ``None`` for a portable shape; ``attributes`` keeps its sign and is sorted (``+gfx,me``), or empty.
    """

    gpu: int
    memory_gb: int | None = None
    attributes: str = ""
    compute: int | None = None

    @classmethod
    def parse(cls, text: str) -> SliceName:
        """Read a name; raise LayoutError (InvalidSlice) with the part that cannot be read."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise LayoutError(
                "InvalidSlice",
                f"{text!r} is not a slice name",
                "write it like 1g.10gb, 3g, 1g+me or 1c.3g.40gb",
            )
        gpu = int(match["gpu"])
        compute = int(match["compute"]) if match["compute"] else None
        if compute is not None and compute > gpu:
            raise LayoutError(
                "InvalidSlice",
                f"{text!r} asks for {compute} compute slices of {gpu}",
                f"a compute instance has at most as many slices as its GPU instance: 1c.{gpu}g to {gpu}g",
            )
        gb = int(match["gb"]) if match["gb"] else None
        if gb == 0:
            gb = None  # integrated GPUs report no memory of their own: 1g.0gb
        return cls(gpu, gb, _attributes(text, match["attributes"] or ""), None if compute == gpu else compute)

    @property
    def shape(self) -> SliceName:
        """The portable part: without memory."""
        return replace(self, memory_gb=None)

    @property
    def instance(self) -> SliceName:
        """The name of the GPU instance: without the compute part."""
        return replace(self, compute=None)

    @property
    def resource(self) -> str:
        """What NVIDIA's device plugin calls it under strategy mixed: ``+`` written as ``.``."""
        return f"nvidia.com/mig-{self}".replace("+", ".")

    def __str__(self) -> str:
        compute = f"{self.compute}c." if self.compute else ""
        memory = f".{self.memory_gb}gb" if self.memory_gb else ""
        return f"{compute}{self.gpu}g{memory}{self.attributes}"


def _attributes(text: str, suffix: str) -> str:
    if not suffix:
        return ""
    sign, parts = suffix[0], suffix[1:].split(",")
    for part in parts:
        if not _ATTRIBUTE.fullmatch(part):
            raise LayoutError(
                "InvalidSlice",
                f"{text!r} has the unreadable attribute {part!r}",
                "known ones are me, me.all and gfx",
            )
    if len(set(parts)) != len(parts):
        raise LayoutError("InvalidSlice", f"{text!r} names an attribute twice", "name it once")
    return sign + ",".join(sorted(parts))


def memory_eighths(memory_mib: int, total_mib: int) -> int:
    """How many eighths of a card's memory a slice occupies, rounded up as the driver's tools do."""
    return -(-memory_mib * _SHARE_OF_MEMORY // total_mib)


def gigabytes(total_mib: int) -> int:
    """The card's memory as names count it: GiB, rounded up."""
    return -(-total_mib // 1024)


def name_gb(eighths: int, total_gb: int) -> int:
    """The GB figure in a slice name: that share of the card, halves rounded up.

    Python's ``round`` rounds halves to even and would call the 3g slice of an H200 70 GB instead of 71.
    Source: go-nvlib's naming of MIG profiles, checked against the names of every product.
    """
    return (2 * eighths * total_gb + _SHARE_OF_MEMORY) // (2 * _SHARE_OF_MEMORY)


def same_memory(wanted_gb: int, eighths: int, total_gb: int) -> bool:
    """Whether ``wanted_gb`` names that share of the card under a slightly different reported total.

    The names move with the total: GB200 says 1g.23gb or 1g.24gb for the same slice, A100 7g.79gb or 7g.80gb.
    """
    lowest = ceil(total_gb * (1 - MEMORY_TOLERANCE))
    highest = floor(total_gb * (1 + MEMORY_TOLERANCE))
    # A gigabyte more makes at most one more in the name, so every figure between the two belongs to some total.
    return name_gb(eighths, lowest) <= wanted_gb <= name_gb(eighths, highest)
