"""How these stories begin and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mig_manager.geometry.layout import Layout
from tests.agent.layouts import every
from tests.agent.worlds import A100, World

Make = Callable[..., World]
CUT = (("1g", 0), ("2g", 2), ("3g", 4))
TARGET = every("1g*3", "3g")
DONE = "1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"


def granted(make: Make, *gpus: str, wish: Layout = TARGET, **terms: Any) -> World:  # noqa: ANN401 - fields of a grant
    """A node with a 1g, a 2g and a 3g on its first card, and a grant for the layout."""
    w = make(*(gpus or (A100,)), cut=CUT)
    w.want(wish)
    w.run_pass()
    w.grant(**terms)
    return w


def applied(make: Make, *gpus: str) -> World:
    """The same, done."""
    w = granted(make, *gpus)
    assert "release: Done" == w.settle()[-1]
    return w


def births(w: World, gpu: int) -> set[int]:
    """The numbers that instances get when they are made: who was destroyed and made again has another."""
    return {i.generation for i in w.machine.card(gpu).instances}


def message(w: World, kind: str = "Ready") -> str:
    """What a condition of the MIGNode tells people."""
    return str(next(c["message"] for c in w.status["conditions"] if c["type"] == kind))
