"""Products, their profiles and the layouts, as tables of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from mig_manager.geometry.cards import Product
from mig_manager.geometry.profiles import GpuInstanceProfile, ProfileTable
from mig_manager.render.table import ranges, text_table

PROFILE_HEAD = ("NAME", "ID", "SLICES", "UNITS", "COUNT", "STARTS", "MIB", "SM", "CE", "DEC", "ENC", "JPEG", "OFA")
PROFILE_FIGURES = ("ID", "SLICES", "UNITS", "COUNT", "MIB", "SM", "CE", "DEC", "ENC", "JPEG", "OFA")

_WIDTH = 80
_DERIVED = {
    "all-<slice>": "every card filled with one kind of slice, by name or shape: all-1g.10gb, all-1g, all-2g",
    "all-balanced": "two 1g, one 2g and one 3g on cards with seven compute slices; two 1g and one 2g with four",
    "all-disabled": "MIG off on every card",
}


def profile_lines(table: ProfileTable) -> list[str]:
    """What a card can be cut into. Memory is in MiB; CE to OFA count copy and media engines."""
    return text_table(PROFILE_HEAD, map(profile_row, table), PROFILE_FIGURES)


def profile_row(profile: GpuInstanceProfile) -> tuple[object, ...]:
    """A profile in the columns of PROFILE_HEAD."""
    engines = profile.engines
    return (
        profile.name,
        profile.id,
        profile.slice_count,
        profile.size,
        profile.instance_count,
        ranges(p.start for p in profile.placements),
        profile.memory_mib,
        profile.multiprocessors,
        engines.copy,
        engines.decoder,
        engines.encoder,
        engines.jpeg,
        engines.ofa,
    )


def product_lines(products: Iterable[Product]) -> list[str]:
    """The products of the card tables. A card whose placements are not published can be planned live only."""
    head = ("PRODUCT", "MEMORY", "ARCHITECTURE", "UNITS", "SMALLEST", "DRIVER")
    rows = [(p.model, _memory(p), p.architecture.name, _units(p), _smallest(p), p.driver) for p in products]
    return text_table(head, rows, ("MEMORY",))


def layout_lines(shipped: Mapping[str, str]) -> list[str]:
    """The layouts by name, with what they are for."""
    return ["Layouts:", *(line for name, text in {**_DERIVED, **shipped}.items() for line in _described(name, text))]


def name_lines(names: Iterable[str]) -> list[str]:
    """The derived layouts of a card, by name."""
    return ["Layouts:", *textwrap.wrap(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")]


def _described(name: str, text: str) -> list[str]:
    indent = " " * 6
    return [f"  {name}", *textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)]


def _memory(product: Product) -> str | None:
    return f"{product.memory_gb} GB" if product.memory_gb else None


def _units(product: Product) -> str:
    if not product.mig_capable:
        return "no MIG"
    return str(product.table.units) if product.table else "unknown"


def _smallest(product: Product) -> str | None:
    if product.table is None:
        return None
    return str(min(product.table, key=lambda p: (p.slice_count, p.size, len(p.attributes))).name)
