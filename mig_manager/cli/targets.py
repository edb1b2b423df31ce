"""The layout a command is about: a name, a file, or a name in a file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mig_manager.cli.exits import BAD_INPUT, CommandError, bad_input

if TYPE_CHECKING:
    from mig_manager.api.files import LayoutFile
    from mig_manager.cli.machines import View
    from mig_manager.geometry.layout import Layout
    from mig_manager.geometry.profiles import ProfileTable
    from mig_manager.planner.plan import Plan
    from mig_manager.planner.strategy import Strategy

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Request:
    """A layout by name, with the file in which it may stand."""

    name: str
    file: LayoutFile | None = None

    def layout(self, tables: Collection[ProfileTable]) -> Layout:
        """The layout on cards with these tables; CommandError when nobody knows the name."""
        from mig_manager.api import catalog

        with bad_input(self.file.source if self.file else "--profile"):
            return catalog.choose(self.name, self.file.profiles if self.file else {}, tables)

    def strategy(self) -> Strategy | None:
        """The device plugin's strategy where the file has one MIGConfig that names it; Auto is decided on the node."""
        from mig_manager.planner.strategy import Strategy

        named = [config.strategy for config in self.file.configs] if self.file else []
        return Strategy(named[0]) if len(named) == 1 and named[0] != "Auto" else None

    def plan(self, view: View) -> Plan:
        """Plan the layout for a machine."""
        from mig_manager.planner.node import plan_node

        layout = self.layout([card.table for card in view.cards if card.table is not None])
        return plan_node(view.cards, view.holders, layout, self.strategy())


def target_options(function: _F) -> _F:
    """The options that choose a layout."""
    profile = click.option(
        "--profile",
        metavar="NAME",
        help="A layout by name: of the file, shipped, or derived (see mig-manager profiles).",
    )
    file = click.option(
        "-f",
        "--file",
        "path",
        metavar="FILE",
        help="A MIGConfig, a profile file or a mig-parted v1 file; - is standard input.",
    )
    return profile(file(function))


def read_request(profile: str | None, path: str | None) -> Request:
    """What the options ask for, the file being read; CommandError when they ask for nothing or cannot be read."""
    if profile is None and path is None:
        raise CommandError("no layout given; name one with --profile, or give a file with -f", BAD_INPUT)
    if path is None:
        return Request(profile or "")
    from mig_manager.api.files import load_file

    with bad_input(path):
        file = load_file(path)
    name = profile or file.default_profile
    if name is None:
        known = ", ".join(file.profiles) or ", ".join(config.profile for config in file.configs)
        raise CommandError(f"{file.source}: which layout? choose one with --profile: {known}", BAD_INPUT)
    return Request(name, file)
