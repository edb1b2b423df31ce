"""What a node shall look like: from a MIGConfig and a profile's name to ``spec.desired``."""

from __future__ import annotations

from mig_manager.api.catalog import choose
from mig_manager.api.layout import layout_hash
from mig_manager.api.migconfig import MIGConfig
from mig_manager.api.mignode import Desired
from mig_manager.geometry.errors import LayoutError
from mig_manager.wording import shortened


class Wishes:
    """What one version of a MIGConfig wants of its nodes, worked out once per profile and not once per node."""

    def __init__(self, config: MIGConfig) -> None:
        self.config = config
        self._by_profile: dict[str, Desired] = {}

    def of(self, profile: str) -> Desired:
        """The wish for a node with that profile."""
        if profile not in self._by_profile:
            self._by_profile[profile] = desired(self.config, profile)
        return self._by_profile[profile]


def desired(config: MIGConfig, profile: str) -> Desired:
    """The ``spec.desired`` of a node with that profile.

    The MIGConfig's own profiles go before shipped ones, those before derived ones; derived names are resolved by the
    node's cards, so every name of the right form is taken. A name that nobody knows becomes an ``error``, which the
    node and not the pool has to bear. The hash is over layout and strategy: equal hashes want the same.
    """
    layout, error = None, ""
    try:
        layout = choose(profile, config.profiles)
    except LayoutError as problem:
        error = shortened(f"{problem.reason}: {problem}")
    return Desired(
        config=config.name,
        generation=config.generation,
        profile=profile,
        hash=layout_hash(layout, config.strategy) if layout is not None else "",
        layout=layout,
        strategy=config.strategy,
        error=error,
        drain=config.disruption.drain,
        max_impact=config.disruption.max_impact,
        paused=config.paused,
    )
