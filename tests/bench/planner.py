"""How fast the planner is, and whether it destroys more than it must.

Run by ``make bench``; prints a table and fails only where a count is not the proven minimum.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.resolve import Wanted
from mig_manager.geometry.state import Card, Holder, Holders, SliceKey
from mig_manager.gpu.nvml import NvmlGpus
from mig_manager.planner import entries, placement, search
from mig_manager.planner.node import plan_node
from tests.bench.machine import bench
from tests.planner.machines import make_card, maximal_layouts, with_slices
from tests.planner.oracle import card_outcomes

PLAIN = (19, 15, 14, 9, 5, 0)  # the profiles without media extensions on the 8-unit grid
NODES = 5_000
GPUS = 8


def maximal_multisets() -> list[tuple[int, ...]]:
    """The multisets of profiles on an A100-80 to which nothing can be added, however they are arranged: 28.

    The double-memory 1g is among them, profiles with media extensions are not.
    """
    table = make_card().profiles
    found = sorted({tuple(sorted(p for p, _ in full)) for full in maximal_layouts(table, PLAIN)})
    return [some for some in found if not any(Counter(some) < Counter(other) for other in found)]


def layout_of(profile_ids: Sequence[int]) -> Layout:
    """The layout that asks for exactly these profiles."""
    table = make_card().profiles
    kinds = sorted(set(profile_ids))
    return Layout((GpuEntry(tuple(SliceRequest(table[p].name, profile_ids.count(p)) for p in kinds)),))


def forget() -> None:
    """Empty the planner's memory, so that the next plan is a cold one."""
    for cached in (
        placement.arrange,
        placement.openness,
        placement.within_engine_limits,
        search.card_options,
        search.compute_options,
        entries.fill_up,
    ):
        cached.cache_clear()


def timed(work: Callable[[], object], repeat: int) -> float:
    """The best of ``repeat`` cold runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        forget()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def fleet(nodes: int) -> list[tuple[list[Card], Holders]]:
    """Nodes of eight A100-80, each card cut at random and busy at random, always the same."""
    rng = random.Random(1)  # noqa: S311 - reproducible, not secret
    table = make_card().profiles
    layouts = maximal_layouts(table, PLAIN)
    pool = [with_slices(make_card(), *(f"{table[p]}@{at.start}" for p, at in full)) for full in layouts]
    found: list[tuple[list[Card], Holders]] = []
    for node in range(nodes):
        cards: list[Card] = []
        holders: dict[SliceKey, frozenset[Holder]] = {}
        for index in range(GPUS):
            like = rng.choice(pool)
            card = replace(like, index=index, uuid=f"GPU-{index}")
            cards.append(card)
            for instance in card.instances:
                if rng.random() < 0.4:
                    holders[SliceKey(card.uuid, instance.id, 0)] = frozenset({Holder(f"{node}/{index}-{instance.id}")})
        found.append((cards, holders))
    return found


def plan_times() -> list[str]:
    """Plan time for one card, one node and a fleet, in milliseconds and seconds."""
    wish = layout_of((19, 19, 14, 9))
    nodes = fleet(NODES)
    one, eight = nodes[0][0][:1], nodes[0]

    def everything() -> None:
        for cards, holders in nodes:
            plan_node(cards, holders, wish)

    one_ms = timed(lambda: plan_node(one, {}, wish), 5) * 1000
    eight_ms = timed(lambda: plan_node(*eight, wish), 5) * 1000
    return [
        f"plan 1 card, nothing remembered        {one_ms:8.2f} ms",
        f"plan 8 cards, nothing remembered       {eight_ms:8.2f} ms   (budget 2 ms)",
        f"plan {NODES} nodes of 8 cards            {timed(everything, 1):8.2f} s    (budget 10 s)",
    ]


def transitions() -> tuple[list[str], bool]:
    """Destroyed slices over all transitions between maximal layouts, against brute force; NVML calls for them."""
    multisets = maximal_multisets()
    table = make_card().profiles
    count = destroyed = least = wiped = 0
    calls: Counter[str] = Counter()
    with bench(["A100-SXM4-80GB"], mig=True) as it:
        for before, after in permutations(multisets, 2):
            count += 1
            it.apply(layout_of(before))
            card = read_card()
            plan = plan_node([card], {}, layout_of(after))
            wanted = [Wanted(p, (table[p].slice_count,)) for p in after]
            destroyed += plan.destroyed
            least += min(outcome[1] for outcome in card_outcomes(card, {}, wanted))
            wiped += len(card.instances)
            calls += it.apply(layout_of(after))
    changing = sum(number for name, number in calls.items() if "Create" in name or "Destroy" in name)
    ours, per = destroyed / wiped, calls.total() / count
    lines = [
        f"transitions between maximal layouts    {count:8d}",
        f"slices destroyed                       {destroyed:8d}",
        f"proven minimum (brute force)           {least:8d}",
        f"by wiping the card every time          {wiped:8d}      (ours: {ours:.0%} of it)",
        f"NVML calls per transition              {per:8.1f}      ({changing / count:.1f} of them changes)",
    ]
    return lines, destroyed == least


def read_card() -> Card:
    """The one card as NVML shows it."""
    with NvmlGpus().session() as session:
        return session.cards()[0]


def main() -> int:
    """Print all figures; exit code 1 when a minimum is missed."""
    lines, exact = transitions()
    print("\n".join([*plan_times(), *lines]))
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
