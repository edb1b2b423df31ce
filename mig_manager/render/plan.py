"""A plan as text: every card before and after, what is kept, created and destroyed, and the sum of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import Card, GpuInstance, Holders, holders_of_instance
from mig_manager.planner.plan import CardPlan, Plan
from mig_manager.planner.target import Difference
from mig_manager.render.bar import Cell, Word, draw_bar, ruler
from mig_manager.render.cells import Marks, cells_now, cells_planned, units_of
from mig_manager.render.folding import folded
from mig_manager.render.look import Look, Role
from mig_manager.render.table import ranges

_VERB_WIDTH = 9
_MOST_HOLDERS = 10  # per line; the JSON has them all


def plan_lines(plan: Plan, holders: Holders, look: Look) -> list[str]:
    """The whole plan. Cards for which the same lines would be printed share them."""
    described = [
        (card.card, _card_lines(card, plan, holders, look) if plan.feasible else _reason_lines(card))
        for card in plan.cards
    ]
    return [look.plain(line) for line in [*folded(described, look), *_summary(plan, look)]]


def _summary(plan: Plan, look: Look) -> list[str]:
    """The plan in one line, preceded by what the cards will offer."""
    if plan.reason is not None:
        return [look.paint(f"Not feasible ({plan.reason.reason}): {plan.reason}", Role.BAD)]
    offered = advertised(plan)
    lines = ["Resources: " + ", ".join(f"{name} {n}" for name, n in offered.items())] if offered else []
    if not plan.changes:
        return [*lines, look.paint("Nothing to do: the cards are as planned.", Role.GOOD)]
    counts = (
        f"keep {sum(len(c.difference.keep) for c in plan.cards)}, "
        f"create {sum(len(c.difference.create) for c in plan.cards)}, destroy {plan.destroyed}"
    )
    evict = f", evict {len(plan.evict)}" if plan.evict else ""
    return [*lines, look.paint(f"Feasible: {counts}{evict}; impact {plan.impact}.", Role.GOOD)]


def advertised(plan: Plan) -> Mapping[str, int]:
    """What a node with these cards offers pods afterwards, as the device plugin counts it under strategy mixed.

    Compute instances narrower than their GPU instance are not advertised. Useful as the template of a node group that
    is scaled from zero.
    """
    counts: Counter[str] = Counter()
    for card in plan.cards:
        for profile_id, compute in _slices_after(card):
            profile = card.card.table.get(profile_id) if card.card.table else None
            if profile is not None:
                counts[profile.name.resource] += sum(c.size == profile.slice_count for c in compute)
        mig = card.target.mig if card.target else card.card.mig_current
        if not mig:
            counts["nvidia.com/gpu"] += 1
    return {name: number for name, number in sorted(counts.items()) if number}


def _at_starts(table: ProfileTable | None, slices: Iterable[tuple[int, Placement]]) -> str:
    """``1g.10gb at 0, 1; 3g.40gb at 4``."""
    starts: dict[int, list[int]] = {}
    for profile_id, placement in slices:
        starts.setdefault(profile_id, []).append(placement.start)
    return "; ".join(
        f"{profile_name(table, profile_id)} at {', '.join(map(str, sorted(at)))}" for profile_id, at in starts.items()
    )


def profile_name(table: ProfileTable | None, profile_id: int) -> str:
    """The profile's name on that card, or its number where the card has no such profile."""
    profile = table.get(profile_id) if table is not None else None
    return str(profile) if profile else f"profile {profile_id}"


def _slices_after(plan: CardPlan) -> Iterator[tuple[int, Sequence[Placement]]]:
    if plan.target is not None:
        yield from ((s.profile_id, s.compute) for s in plan.target.slices)
    else:
        yield from ((i.profile_id, [c.placement for c in i.compute]) for i in plan.card.instances)


def _card_lines(plan: CardPlan, node: Plan, holders: Holders, look: Look) -> list[str]:
    card, change = plan.card, plan.difference
    before = cells_now(card, _marks_before(card, change, holders))
    after = cells_planned(plan, holders)
    lines = [ruler(units_of(card))] if _has_slices(before, after) else []
    if change.empty:
        lines += draw_bar(units_of(card), before, "now", look)
        remark = ["  left as it is: the layout does not concern it"] if plan.target is None else []
        return [*lines, *_change_lines(plan, node, look), *remark]
    lines += draw_bar(units_of(card), before, "before", look)
    lines += draw_bar(units_of(card), after, "after", look)
    return [*lines, *_change_lines(plan, node, look)]


def _has_slices(*drawings: list[Cell]) -> bool:
    return any(len(cells) > 1 or cells[0].words[0].role is not None for cells in drawings)


def _marks_before(card: Card, change: Difference, holders: Holders) -> Marks:
    gone = {instance.id for instance in change.destroy}

    def marks(instance: GpuInstance) -> Iterator[Word]:
        if instance.id in gone:
            yield Word("destroy", Role.BAD)
        if holders_of_instance(holders, card.uuid, instance.id):
            yield Word("busy", Role.WARN)

    return marks


def _change_lines(plan: CardPlan, node: Plan, look: Look) -> Iterator[str]:
    change, table, card = plan.difference, plan.card.table, plan.card

    def line(verb: str, text: str, role: Role | None = None) -> str:
        return f"  {look.paint(verb, role)}{' ' * (_VERB_WIDTH - len(verb))}{text}"

    if plan.target is not None and bool(card.mig_current) is not plan.target.mig:
        yield line("mode", _mode_text(plan, node), Role.WARN)
    if change.keep:
        yield line("keep", _at_starts(table, ((k.instance.profile_id, k.instance.placement) for k in change.keep)))
    for kept in change.keep:
        where = f"in {profile_name(table, kept.instance.profile_id)} at {kept.instance.placement.start}: compute"
        if kept.destroy_compute:
            yield line("destroy", f"{where} {_widths(c.placement for c in kept.destroy_compute)}", Role.BAD)
        if kept.create_compute:
            yield line("create", f"{where} {_widths(kept.create_compute)}", Role.GOOD)
    if change.destroy:
        yield line("destroy", _at_starts(table, ((i.profile_id, i.placement) for i in change.destroy)), Role.BAD)
    if change.create:
        yield line("create", _at_starts(table, ((s.profile_id, s.placement) for s in change.create)), Role.GOOD)
    if plan.evict:
        names = [h.name for h in plan.evict]
        more = f" and {len(names) - _MOST_HOLDERS} more" if len(names) > _MOST_HOLDERS else ""
        yield line("evict", ", ".join(names[:_MOST_HOLDERS]) + more, Role.BAD)


def _widths(placements: Iterable[Placement]) -> str:
    return ", ".join(f"{p.size}c@{p.start}" for p in sorted(placements))


def _mode_text(plan: CardPlan, node: Plan) -> str:
    wanted = bool(plan.target and plan.target.mig)
    text = f"MIG {'off → on' if wanted else 'on → off'}"
    if not plan.reset:
        return text
    group = [
        p.card.index
        for p in node.cards
        if p.card is plan.card or (plan.card.reset_group and p.card.reset_group == plan.card.reset_group)
    ]
    return f"{text}, by a reset of GPU {ranges(group)}"


def _reason_lines(plan: CardPlan) -> list[str]:
    if plan.reason is None:
        return ["  no plan; why stands below"]
    return [f"  {plan.reason.reason}: {plan.reason}"]
