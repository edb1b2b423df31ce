"""For which products of the card tables a layout is placeable: entry by entry, without knowing the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from mig_manager.geometry.cards import find_product, products
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode
from mig_manager.geometry.offline import offline_cards
from mig_manager.geometry.state import Card
from mig_manager.planner.entries import Entries


@dataclass(frozen=True)
class Fit:
    """What a layout means on a product: entries that a card may take, and why it cannot take some of them.

    A product for which both are empty is one that the layout leaves alone.
    """

    entries: tuple[int, ...] = ()
    problems: tuple[LayoutError, ...] = ()


@cache
def known_cards() -> tuple[Card, ...]:
    """One card of every product that can be planned offline."""
    return offline_cards([p.model for p in products() if p.table is not None])


def fits(layout: Layout) -> Mapping[str, Fit]:
    """By product, in the order of the card tables. Indices, UUIDs and bus ids are taken as met, counts as enough."""
    anywhere = Layout(tuple(_anywhere(entry) for entry in layout.gpus), layout.name)
    return {card.model: _fit(anywhere, card) for card in known_cards()}


def unknown_models(layout: Layout) -> Iterator[tuple[str, LayoutError]]:
    """Model names that no product of the card tables has, with their path. A newer card may have that name."""
    for number, entry in enumerate(layout.gpus):
        for place, model in enumerate(entry.match.models if entry.match else ()):
            try:
                find_product(model)
            except LayoutError as error:
                if error.reason == "UnknownModel":
                    yield f"gpus[{number}].match.models[{place}]", error


def _anywhere(entry: GpuEntry) -> GpuEntry:
    """The entry for any card; one for particular cards leaves others to the entries below, as a count does."""
    match = entry.match
    if match is None or not (match.indices or match.uuids or match.bus_ids):
        return entry
    return replace(entry, match=replace(match, indices=(), uuids=(), bus_ids=()), count=entry.count or 1)


def _fit(layout: Layout, card: Card) -> Fit:
    entries = Entries(layout, [card])
    found, problems = [], []
    for index in entries.possible[card.uuid]:
        if index is None or entries.mode(index) is MigMode.UNMANAGED:
            continue
        wanted = entries.wanted(card, index)
        if isinstance(wanted, LayoutError):
            problem = wanted.problem.removeprefix(f"{card.label} ({card.model}): ")
            problems.append(LayoutError(wanted.reason, problem, wanted.hint, wanted.path))
        else:
            found.append(index)
    return Fit(tuple(found), tuple(problems))
