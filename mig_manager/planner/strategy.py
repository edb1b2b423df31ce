"""What NVIDIA's device plugin can advertise, per strategy; other layouts are refused before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.planner.target import CardTarget


class Strategy(StrEnum):
    """The device plugin's MIG strategy; ``None`` means that no plugin advertises the slices (Slurm nodes)."""

    MIXED = "Mixed"
    SINGLE = "Single"
    NONE = "None"


def check_strategy(strategy: Strategy, targets: Mapping[CardTarget, ProfileTable]) -> LayoutError | None:
    """Why the plugin could not advertise these cards, or ``None``.

    ``targets`` are all MIG-capable cards of the node with their tables. Facts: in device plugin 0.20, strategy mixed
    knows only compute instances as wide as their GPU instance; strategy single wants every card in the same mode, none
    empty, and all devices alike.
    """
    if strategy is Strategy.NONE:
        return None
    if strategy is Strategy.MIXED:
        return _mixed(targets)
    return _single(targets)


def _mixed(targets: Mapping[CardTarget, ProfileTable]) -> LayoutError | None:
    for target, table in targets.items():
        for piece in target.slices:
            profile = table[piece.profile_id]
            if any(c.size != profile.slice_count for c in piece.compute):
                return LayoutError(
                    "StrategyMismatch",
                    f"compute instances smaller than their {profile} cannot be advertised under strategy Mixed",
                    "use full-width slices, or strategy Single on nodes whose slices are all alike",
                )
    return None


def _single(targets: Mapping[CardTarget, ProfileTable]) -> LayoutError | None:
    if not any(target.mig for target in targets):
        return None
    hint = "make all cards alike or use strategy Mixed"
    if not all(target.mig for target in targets):
        return LayoutError("StrategyMismatch", "strategy Single needs MIG on every card or on none", hint)
    if not all(target.slices for target in targets):
        return LayoutError("EmptyMIGGPU", "strategy Single does not start with a MIG card that has no slices", hint)
    kinds = {
        (str(table[s.profile_id].name), c.size)
        for target, table in targets.items()
        for s in target.slices
        for c in s.compute
    }
    if len(kinds) > 1:
        names = ", ".join(sorted({name for name, _ in kinds}))
        return LayoutError(
            "StrategyMismatch", f"strategy Single needs slices of one kind, the layout has {names}", hint
        )
    return None
