"""How most stories of a node begin, and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mig_manager.kube.kinds import Kind
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every
from tests.agent.worlds import A100, World

Make = Callable[..., World]
CUT = (("1g", 0), ("2g", 2), ("3g", 4))
TARGET = every("1g*3", "3g")
GOING = "nvidia.com/mig-2g.20gb"
GUARDED = {"app": "guarded"}
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def granted(make: Make, *gpus: str, slot: bool = True, **terms: object) -> World:
    """A node with slices 1g, 2g, 3g on its first card, granted three 1g and a 3g everywhere."""
    w = make(*(gpus or (A100,)), cut=CUT)
    w.want(TARGET)
    w.run_pass()
    w.grant(slot=slot, **terms)
    return w


def applied(make: Make, *gpus: str) -> World:
    """The same, done."""
    w = granted(make, *gpus)
    assert w.settle()[-1].endswith("Done")
    return w


def advance(w: World, step: str, passes: int = 30) -> None:
    """Go on until a pass ends at that step."""
    for _ in range(passes):
        if w.run_pass().step == step:
            return
        w.tick()
    pytest.fail(f"no pass ended at {step}")


def guard(w: World) -> None:
    """A pod uses what has to go, and its budget does not let it."""
    w.pod("goes", GOING, labels=GUARDED)
    w.budget(GUARDED)


def blocked(make: Make) -> World:
    """A node that is granted and drained as far as a budget allows."""
    w = granted(make)
    guard(w)
    advance(w, "drain")
    return w


def failed(make: Make) -> World:
    """A node on which neither the new layout nor the former one could be made."""
    w = granted(make)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    w.settle(2)
    assert ("Released", "Failed") == (w.grant_status["state"], w.grant_status["result"])
    return w


def taken_out(make: Make, step: str) -> World:
    """A node that waits at that step, for a pod whose budget is used up or for its GPU clients."""
    w = granted(make)
    if step == "drain":
        guard(w)
    advance(w, step)
    return w


def versions(w: World, since: int, kind: Kind) -> list[dict[str, Any]]:
    """What was written of that kind after that version."""
    return [v.body or {} for v in w.store.history_since(since) if v.key[0] == kind]
