"""Which entries of a layout a card could take, and what each of them means there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout, MigMode
from mig_manager.geometry.matching import matches
from mig_manager.geometry.names import gigabytes
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.geometry.resolve import Wanted, WantedLayout, resolve
from mig_manager.geometry.state import Card
from mig_manager.planner.explain import does_not_fit
from mig_manager.planner.search import feasible_with_pins


@lru_cache(maxsize=4096)
def fill_up(table: ProfileTable, wanted: WantedLayout) -> tuple[Wanted, ...] | LayoutError:
    """Replace ``fill`` by as many instances as fit beside the others on the empty card, or say why nothing fits."""
    if wanted.fill is None:
        return wanted.slices if feasible_with_pins(table, wanted.slices) else does_not_fit(table, wanted.slices)
    for number in range(table[wanted.fill.profile_id].instance_count, 0, -1):
        filled = (*wanted.slices, *[wanted.fill] * number)
        if feasible_with_pins(table, filled):
            return filled
    return does_not_fit(table, (*wanted.slices, wanted.fill))


class Entries:
    """The entries of one layout on the cards of one node.

    ``possible`` holds, by card UUID, the entries a card could take in order: counted ones first, then the first that
    takes every card it matches, or ``None`` when the layout may leave the card alone.
    """

    def __init__(self, layout: Layout, cards: Sequence[Card]) -> None:
        self.layout = layout
        self.cards = cards
        self._resolved: dict[tuple[int, ProfileTable, int], tuple[Wanted, ...] | LayoutError] = {}
        self.possible = {card.uuid: self._possible(card) for card in cards}

    def _possible(self, card: Card) -> list[int | None]:
        found: list[int | None] = []
        for index, entry in enumerate(self.layout.gpus):
            # Entries that match everything are about MIG cards; naming a card without MIG is worth an error.
            if (card.mig_capable or entry.match is not None) and matches(card, entry.match):
                found.append(index)
                if entry.count is None:
                    return found
        return [*found, None]

    def mode(self, index: int | None) -> MigMode:
        """The mode that an entry asks for; a card without an entry is unmanaged."""
        return MigMode.UNMANAGED if index is None else self.layout.gpus[index].mig

    def changes_mode(self, card: Card, index: int | None) -> bool:
        """Whether taking the entry changes the card's current MIG mode."""
        mode = self.mode(index)
        return card.mig_capable and mode is not MigMode.UNMANAGED and card.mig_current is not (mode is MigMode.ENABLED)

    def wanted(self, card: Card, index: int) -> tuple[Wanted, ...] | LayoutError:
        """The instances that the entry wants of the card, or why the card cannot have them."""
        if self.layout.gpus[index].mig is not MigMode.ENABLED:
            return ()
        path = f"gpus[{index}]"
        who = f"{card.label} ({card.model})"
        if not card.mig_capable:
            return LayoutError("ProfileNotOnGPU", f"{who} has no MIG", "let the entry match other cards", path)
        if card.table is None:
            problem = f"the profiles of {who} are neither published nor readable now"
            return LayoutError("ProfileNotOnGPU", problem, "plan on the live card, with MIG enabled on it", path)
        key = (index, card.table, card.memory_mib)
        if key not in self._resolved:
            self._resolved[key] = self._resolve(card.table, card.memory_mib, index)
        result = self._resolved[key]
        if isinstance(result, LayoutError):
            return LayoutError(result.reason, f"{who}: {result.problem}", result.hint, result.path)
        return result

    def _resolve(self, table: ProfileTable, memory_mib: int, index: int) -> tuple[Wanted, ...] | LayoutError:
        path = f"gpus[{index}]"
        try:
            wanted = resolve(self.layout.gpus[index].slices, table, gigabytes(memory_mib))
        except LayoutError as error:
            return error.at(path)
        filled = fill_up(table, wanted)
        return filled.at(path) if isinstance(filled, LayoutError) else filled

    def counted(self) -> dict[int, int]:
        """Entries with a count that concern any card here, and how many cards each must take."""
        return {
            index: entry.count
            for index, entry in enumerate(self.layout.gpus)
            if entry.count is not None and any(index in self.possible[card.uuid] for card in self.cards)
        }

    def problems(self) -> dict[str, LayoutError]:
        """What is wrong whatever is chosen: errors by card UUID, and under ``""`` for the node."""
        found = {}
        node = self._index_problem() or self._match_problem()
        if node is not None:
            found[""] = node
        for card in self.cards:
            possible = self.possible[card.uuid]
            errors = [e for i in possible if i is not None and isinstance(e := self.wanted(card, i), LayoutError)]
            if len(errors) == len(possible):
                found[card.uuid] = errors[-1]
        return found

    def _index_problem(self) -> LayoutError | None:
        indices = {card.index for card in self.cards}
        for number, entry in enumerate(self.layout.gpus):
            for index in entry.match.indices if entry.match else ():
                if index not in indices:
                    there = (
                        f"this node has GPU {', '.join(map(str, sorted(indices)))}" if indices else "this node has none"
                    )
                    return LayoutError(
                        "IndexOutOfRange", f"there is no GPU {index}", there, f"gpus[{number}].match.indices"
                    )
        return None

    def _match_problem(self) -> LayoutError | None:
        if any(possible != [None] for possible in self.possible.values()):
            return None
        cards = ", ".join(f"{n} × {model}" for model, n in Counter(c.model for c in self.cards).items())
        return LayoutError(
            "NoGPUMatched", "no entry of the layout matches a card of this node", f"it has {cards or 'no GPU'}"
        )

    def count_problem(self) -> LayoutError:
        """No choice of cards gives every counted entry its number: say which entry is short of cards."""
        for index, number in self.counted().items():
            able = [
                card.label
                for card in self.cards
                if index in self.possible[card.uuid] and not isinstance(self.wanted(card, index), LayoutError)
            ]
            if len(able) < number:
                problem = f"{number} cards are wanted and {len(able)} can take it ({', '.join(able) or 'none'})"
                return LayoutError("LayoutDoesNotFit", problem, "lower count or widen match", f"gpus[{index}].count")
        wanted = " + ".join(f"{n} by gpus[{i}]" for i, n in self.counted().items())
        problem = f"no choice of cards gives each entry its count: {wanted}"
        return LayoutError("LayoutDoesNotFit", problem, "lower a count or let the entries match other cards", "gpus")
