"""Which cards the machine has, compared with those that it had when the present layout was first wished for.

A card that is gone, or another one in its place, changes what indices and counts in a layout mean for the rest. Nobody
asked for that: the rest is only kept as it was promised, until somebody decides, by another layout or by deleting the
MIGNode (which the controller makes anew). A card that is merely added is cut like the others, as long as the layout
still says the same of those.
"""

from __future__ import annotations

from mig_manager.agent.availability import same_slices
from mig_manager.agent.context import Context
from mig_manager.geometry.errors import LayoutError
from mig_manager.gpu.journal import Inventory
from mig_manager.planner.plan import Plan

GPU_MISSING = "GpuMissing"
INVENTORY_CHANGED = "InventoryChanged"


def take_stock(ctx: Context) -> None:
    """Have the journal say which cards there are for the present wish: when that is new, or cards were merely added."""
    wish, plan = _wish(ctx), ctx.draft.plan
    cards = {card.uuid: card.bus_id for card in ctx.cards}
    known = _known(ctx)
    if not wish or ctx.driver_error is not None or (known is not None and known.cards == cards):
        return
    if known is None or not (missing_cards(ctx) or plan is None or plan.reason is not None):
        ctx.ports.journal.take_stock(Inventory(wish, cards))
        ctx.record = ctx.ports.journal.read()


def missing_cards(ctx: Context) -> list[str]:
    """The UUIDs of the cards that are gone."""
    known = _known(ctx)
    return sorted(known.cards.keys() - {card.uuid for card in ctx.cards}) if known is not None else []


def gone(ctx: Context) -> LayoutError | None:
    """What to say of a node whose cards are as they should be, but for those that are gone."""
    return _problem(ctx, GPU_MISSING, []) if missing_cards(ctx) else None


def objection(ctx: Context, plan: Plan) -> LayoutError | None:
    """Why the plan must not be, with the cards that there are now: it would change others because of it."""
    known = _known(ctx)
    if known is None:
        return None
    lost, added = missing_cards(ctx), sorted(card.uuid for card in ctx.cards if card.uuid not in known.cards)
    if lost and added:
        return _problem(ctx, INVENTORY_CHANGED, added)
    if lost and not (plan.feasible and _restores(ctx, plan, known)):
        return _problem(ctx, GPU_MISSING, [])
    if added and plan.feasible and ctx.record.last_good and not _restores(ctx, plan, known):
        return _problem(ctx, INVENTORY_CHANGED, added)
    return None


def _restores(ctx: Context, plan: Plan, known: Inventory) -> bool:
    """Whether the plan wants of every known card what was promised of it, and nothing else."""
    good = ctx.record.last_good
    if not good:
        return False
    for card in plan.cards:
        if card.card.uuid in known.cards:
            promised = good.get(card.card.uuid)
            if (promised is None) is not (card.target is None):
                return False
            if promised is not None and card.target is not None and not same_slices(promised, card.target):
                return False
    return True


def _known(ctx: Context) -> Inventory | None:
    """The inventory, if it was taken for the present wish."""
    inventory = ctx.record.inventory
    return inventory if inventory is not None and inventory.wish == _wish(ctx) else None


def _wish(ctx: Context) -> str:
    """What makes the present wish another one: layout and MIGNode. Empty without one."""
    if ctx.mignode is None or ctx.desired is None:
        return ""
    return f"{ctx.mignode.uid}/{ctx.desired.hash}"


def _problem(ctx: Context, reason: str, added: list[str]) -> LayoutError:
    known = _known(ctx)
    places = known.cards if known is not None else {}
    said = [f"GPU {uuid} at {places[uuid]} is gone" for uuid in missing_cards(ctx)]
    said += [f"GPU {uuid} is new" for uuid in added]
    hint = (
        "the other cards keep what they were promised; bring it back, or accept the cards as they are: "
        f"kubectl delete mignode {ctx.settings.node}"
    )
    return LayoutError(reason, ", ".join(said), hint)
