"""Which MIGConfig a node belongs to, and which profile it has there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mig_manager.api.migconfig import MIGConfig


def claims(labels: Mapping[str, str], configs: Iterable[MIGConfig]) -> tuple[str, ...]:
    """The names, sorted, of the MIGConfigs that select a node with these labels.

    One is the node's owner. Several are a conflict, in which all of them leave the node alone: whichever was chosen,
    the other's administrator would see his nodes change for no reason he can find.
    """
    return tuple(sorted(config.name for config in configs if config.node_selector.matches(labels)))


def profile_of(labels: Mapping[str, str], config: MIGConfig) -> str:
    """The profile of a node: what its label names, or the pool's where the label is absent or empty."""
    return labels.get(config.node_profile_label) or config.profile
