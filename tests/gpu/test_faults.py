"""Every NVML function that applying uses, with every error that is documented for it, at different calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from mig_manager.geometry.layout import Layout, MigMode
from mig_manager.gpu.port import GpuError
from mig_manager.gpu.result import Outcome, Result
from mig_manager.planner.plan import Plan
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import decode, encode
from mig_manager.sim.model.store import Store
from tests.chaos.counting import Matrix, fixed_part, must
from tests.gpu.documented import ALWAYS, DOCUMENTED
from tests.gpu.worlds import A100, H100, Process, World, on, wants

STRIDE = 3

Slices = list[list[tuple[int, int, tuple[tuple[int, int], ...]]]]


@dataclass(frozen=True)
class Start:
    """A machine as a file would hold it, the plan for it, and the layout that was planned.

    ``wanted`` and ``modes`` are what the cards are in the end; ``used`` are instances in use, by card.
    """

    state: str
    plan: Plan
    layout: Layout
    wanted: Slices
    modes: list[tuple[bool, bool]]
    used: dict[int, tuple[int, int, int]]

    def world(self, directory: Path) -> World:
        """The machine, anew."""
        directory.mkdir(exist_ok=True)
        return World(Machine(Store(None, decode(self.state))), directory / "journal.json")


def recut(directory: Path) -> Start:
    """GPU 0 is recut around a slice in use, GPU 1 loses its slice and its mode, GPU 2 is not concerned."""
    w = World(Machine.create(None, [A100, H100, A100], mig=True), directory / "unused")
    for name, where in (("1g", 0), ("2g", 2), ("3g", 4)):
        w.machine.add_instance(0, name, start=where)
    w.machine.hold(0, start=0)
    w.machine.add_instance(1, "1g", start=2)
    w.machine.add_instance(2, "7g")
    w.machine.hold(2, start=0)
    layout = wants(on(0, "1g*2", "3g/2c"), on(1, mig=MigMode.DISABLED))
    wanted: Slices = [[(0, 19, ((0, 1),)), (1, 19, ((0, 1),)), (4, 9, ((0, 2),))], [], [(0, 0, ((0, 7),))]]
    modes_after = [(True, True), (False, False), (True, True)]
    return Start(encode(w.machine.read()), w.plan(layout), layout, wanted, modes_after, {0: (7, 19, 0), 2: (0, 0, 0)})


def switched(directory: Path) -> Start:
    """GPU 0 gets MIG through a reset, GPU 1 without one; GPU 2 is not concerned."""
    w = World(Machine.create(None, [A100, H100, A100]), directory / "unused")
    w.machine.set_mig(2, enabled=True)
    w.machine.reset(2)
    w.machine.add_instance(2, "7g")
    w.machine.hold(2, start=0)
    layout = wants(on(0, "7g"), on(1, "7g"))
    wanted: Slices = [[(0, 0, ((0, 7),))]] * 3
    return Start(encode(w.machine.read()), w.plan(layout), layout, wanted, [(True, True)] * 3, {2: (0, 0, 0)})


STARTS = (recut, switched)


def slices(w: World) -> Slices:
    """What lies on the cards: start, profile, compute instances."""
    return [
        sorted((i.start, i.profile_id, tuple(sorted((c.start, c.size) for c in i.compute))) for i in card.instances)
        for card in w.machine.read().cards
    ]


def modes(w: World) -> list[tuple[bool, bool]]:
    """The MIG modes of the cards."""
    return [(card.mig_current, card.mig_pending) for card in w.machine.read().cards]


def test_every_function_is_listed(tmp_path: Path) -> None:
    """The list is what applying really calls: a new call needs its errors here."""
    called: set[str] = set()
    for begin in STARTS:
        process = Process()
        start = begin(tmp_path)
        assert start.world(tmp_path).apply(start.plan, process).ok
        called |= {n for n in process.names if not n.endswith(" done")}
    assert set(DOCUMENTED) == called


@pytest.mark.parametrize("calls", [[1], [2], "every"], ids=str)
@pytest.mark.parametrize("function", DOCUMENTED)
@pytest.mark.parametrize("begin", STARTS, ids=lambda f: f.__name__)
def test_error(
    begin: Callable[[Path], Start],
    tmp_path: Path,
    function: str,
    calls: list[int] | Literal["every"],
    matrix: Matrix,
) -> None:
    """Nothing in use and no other card is hurt while it lasts, and the next run after it converges."""
    matrix.scenario()
    start = begin(tmp_path)
    codes = (*ALWAYS, *DOCUMENTED[function])
    for number in fixed_part(len(codes), STRIDE, f"{begin.__name__}{function}{calls}"):
        code = codes[number - 1]
        with matrix.attempt(f"{begin.__name__}: {function} fails with {code.name} at {calls}", faults=1):
            w = start.world(tmp_path / code.name)
            w.machine.inject(function, code=code, calls=calls)
            fails_harmlessly(w, start)


def fails_harmlessly(w: World, start: Start) -> None:
    """One run with the fault, and one without."""
    before, there, modes_before = [w.births(gpu) for gpu in range(3)], slices(w), modes(w)

    def unhurt() -> bool:
        return before[2] == w.births(2) and all(before[g][key] == w.births(g).get(key) for g, key in start.used.items())

    result = applied(w, start.plan)
    if result is None:
        must(before == [w.births(gpu) for gpu in range(3)], "cards were changed that could not be read")
    elif result.ok:
        must(start.wanted == slices(w), f"called a success, and the cards are {slices(w)}")
    elif result.outcome is not Outcome.FAILED:
        must((there, modes_before) == (slices(w), modes(w)), f"called {result.outcome}, and not as it was: {slices(w)}")
    must(w.journal.read().intent is None, "the intent is still open")
    must(unhurt(), "a slice in use, or another card, was hurt while the driver failed")

    w.machine.clear_faults()
    again = w.apply(w.plan(start.layout))
    must(again.ok, again.message)
    must(start.wanted == slices(w), f"in the end the cards are {slices(w)}")
    must(start.modes == modes(w), f"in the end the modes are {modes(w)}")
    must(unhurt(), "a slice in use, or another card, was hurt afterwards")


def applied(w: World, plan: Plan) -> Result | None:
    """The result of applying; ``None`` when the cards could not even be read."""
    try:
        return w.apply(plan)
    except GpuError:
        return None
