"""What a search covers, and what the nodes of the model share: the MIGConfig, and what controllers know of it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.state import Fault, Layout, Violation


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched: which layouts the MIGConfig asks for after A, how many faults of which kinds, and what else."""

    edits: tuple[Layout, ...] = ("B",)
    faults: int = 0
    kinds: frozenset[Fault] = frozenset(Fault)
    pause: bool = False
    pods: bool = False


class Config(NamedTuple):
    """The MIGConfig: which edit it is at, whether it is paused (0 not yet, 1 now, 2 no more), whether it is deleted."""

    edit: int
    pause: int
    deleted: bool


Copies = tuple[bool | None, bool | None]
"""Per MIGNode: None is the current version; of an older one, whether it holds a slot."""


class Former(NamedTuple):
    """The controller that has lost the Lease, with what it knows."""

    config: Config
    copies: Copies


class Shared(NamedTuple):
    """Everything beside the nodes."""

    config: Config
    known: Config  # the controller's copy of the MIGConfig
    copies: Copies
    former: Former | None
    faults: int  # how many are left


class State(NamedTuple):
    """Nodes and the rest, as numbers that a Fleet has given them."""

    first: int
    second: int
    shared: int


class Move(NamedTuple):
    """A transition. ``node`` is 0, 1, or -1 for neither."""

    label: str
    node: int
    after: State
    fair: bool
    violation: Violation


def replaced(copies: Copies, node: int, value: bool | None) -> Copies:
    """The copies with one of them replaced."""
    return (value, copies[1]) if node == 0 else (copies[0], value)
