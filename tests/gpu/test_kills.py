"""Killed at any moment and run again, applying converges and never hurts what is in use.

What happens after a kill depends only on what the dead process left: the cards and the files. So the whole run is
photographed at every point, and each photograph is a world in which the next process starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mig_manager.geometry.layout import Layout
from mig_manager.gpu.result import Outcome
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import decode, encode
from mig_manager.sim.model.store import Store
from tests.chaos.counting import Matrix, must
from tests.gpu.worlds import A100, SXM, KilledError, Process, World, on, wants

Remains = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class Start:
    """A world, what it is to become, and whether GPU 1 has to stay the very same."""

    world: World
    layout: Layout
    wanted: list[list[str]]
    bystander: bool = True


def recut(path: Path) -> Start:
    """A card whose used 1g stays while its 2g goes and its 3g is cut in two, beside a card that is not concerned."""
    w = World(Machine.create(None, [A100, A100], mig=True), path)
    for name, start in (("1g", 0), ("2g", 2), ("3g", 4)):
        w.machine.add_instance(0, name, start=start)
    w.machine.add_instance(1, "1g", start=3)
    w.machine.hold(0, start=0)
    w.machine.hold(1, start=3)
    wanted = [["1g.10gb@0[1c@0]", "1g.10gb@1[1c@0]", "3g.40gb@4[2c@0]"], ["1g.10gb@3[1c@0]"]]
    return Start(w, wants(on(0, "1g*2", "3g/2c")), wanted)


def reset(path: Path) -> Start:
    """A card that gets MIG through a reset, which takes along the slices of a neighbour."""
    w = World(Machine.create(None, [SXM, SXM]), path)
    w.machine.set_mig(1, enabled=True)
    w.machine.add_instance(1, "3g", start=0)
    return Start(w, wants(on(0, "7g")), [["7g.80gb@0[7c@0]"], ["3g.40gb@0[3c@0]"]], bystander=False)


def rolled_back(path: Path) -> Start:
    """A card on which one creation fails, so that the change is taken back."""
    begin = recut(path)
    begin.world.machine.inject(
        "nvmlDeviceCreateGpuInstanceWithPlacement", code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1]
    )
    return begin


@dataclass
class Watched(Process):
    """A process whose surroundings are photographed at every point of its life."""

    world: World | None = None
    photographs: dict[Remains, str] = field(default_factory=dict)

    def point(self, name: str) -> None:
        """Photograph, then live on or die."""
        if self.world is not None:
            self.photographs.setdefault(remains(self.world), f"at point {self.points + 1}: {name}")
        super().point(name)


def remains(w: World) -> Remains:
    """What is left of a run: the cards, and the journal with its temporary file."""
    files = tuple((f.name, f.read_text()) for f in sorted(w.path.parent.glob(f"{w.path.name}*")))
    return encode(w.machine.read()), files


def revived(left: Remains, directory: Path) -> World:
    """The world of a photograph."""
    state, files = left
    directory.mkdir()
    for name, text in files:
        (directory / name).write_text(text)
    return World(Machine(Store(None, decode(state))), directory / "journal.json")


def used(w: World) -> list[tuple[int, int, int]]:
    """Every slice that a process uses, and when it was made."""
    return [
        (gpu, client.pid, instance.generation)
        for gpu, card in enumerate(w.machine.read().cards)
        for client in card.clients
        for instance in card.instances
        if instance.id == client.gpu_instance and any(c.id == client.compute_instance for c in instance.compute)
    ]


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes for which a sync of the journal is a point of their lives, too."""
    found: list[Process] = []
    sync = os.fsync

    def synced(file: int) -> None:
        for process in found:
            process.point("fsync")
        sync(file)

    monkeypatch.setattr(os, "fsync", synced)
    return found


def watch(w: World, living: list[Process], run: Callable[[Process], object]) -> Watched:
    """Let a process run to its end, and photograph all of it."""
    process = Watched(world=w)
    living[:] = [process]
    run(process)
    living.clear()
    return process


def heals(w: World, begin: Start) -> None:
    """The next process closes the intent, and a new plan reaches the layout; nothing in use is hurt by either."""
    before, bystander = used(begin.world), begin.world.births(1)
    must(before == used(w), "the dead process hurt a slice in use")
    healed = w.recover()
    must(healed is None or healed.outcome is not Outcome.FAILED, "it could not be healed")
    must(w.journal.read().intent is None, "the intent is still open")
    must(before == used(w), "healing hurt a slice in use")
    w.machine.clear_faults()
    must(w.apply(w.plan(begin.layout)).ok, "the layout could not be reached afterwards")
    must(begin.wanted == w.shape(), f"the cards are {w.shape()}")
    must(before == used(w), "a slice in use was hurt on the way to the layout")
    must(not begin.bystander or bystander == w.births(1), "a card that is not concerned was changed")
    must(w.cards()[0].uuid in w.journal.read().last_good, "nothing is promised of the card")


@pytest.mark.parametrize("start", [recut, reset, rolled_back])
def test_killed_at_any_point(
    tmp_path: Path, living: list[Process], start: Callable[[Path], Start], matrix: Matrix
) -> None:
    """Before and after every NVML call and every sync of the journal: it converges."""
    matrix.scenario()
    begin = start(tmp_path / "journal.json")
    w = begin.world
    plan = w.plan(begin.layout)
    whole = watch(w, living, lambda process: w.apply(plan, process))
    untouched = start(tmp_path / "untouched.json")
    assert len(whole.photographs) > 10
    for number, (left, moment) in enumerate(whole.photographs.items()):
        with matrix.attempt(f"killed {moment}", kills=1):
            heals(revived(left, tmp_path / str(number)), untouched)


@pytest.mark.parametrize("start", [recut, reset])
def test_killed_while_recovering(
    tmp_path: Path, living: list[Process], start: Callable[[Path], Start], matrix: Matrix
) -> None:
    """A second kill, during the recovery from the first, converges too."""
    matrix.scenario()
    begin = start(tmp_path / "journal.json")
    w = begin.world
    plan = w.plan(begin.layout)
    whole = watch(w, living, lambda process: w.apply(plan, process))
    untouched = start(tmp_path / "untouched.json")
    seen: set[Remains] = set(whole.photographs)
    for number, (left, moment) in enumerate(whole.photographs.items()):
        again = revived(left, tmp_path / str(number))
        second = watch(again, living, again.recover)
        for index, (late, later) in enumerate(second.photographs.items()):
            if late not in seen:
                seen.add(late)
                with matrix.attempt(f"killed {moment}, then {later}", kills=2):
                    heals(revived(late, tmp_path / f"{number}-{index}"), untouched)
    assert len(seen) > len(whole.photographs)


def test_dying_is_not_handled(tmp_path: Path, living: list[Process]) -> None:
    """An exception that nobody may catch ends the run, and no clean-up changes anything any more."""
    begin = recut(tmp_path / "journal.json")
    plan = begin.world.plan(begin.layout)
    whole = watch(begin.world, living, lambda process: begin.world.apply(plan, process, intent_id="41"))
    changes = [n for n, name in enumerate(whole.names, 1) if name == "fsync" or name.endswith(" done")]
    for die_at in changes:
        path = tmp_path / str(die_at) / "journal.json"
        path.parent.mkdir()
        w = recut(path).world
        living[:] = [Process(die_at)]
        with pytest.raises(KilledError):
            w.apply(plan, living[0], intent_id="41")
        living.clear()
        assert remains(w) in whole.photographs


def test_record_is_there_before_the_first_change(tmp_path: Path, living: list[Process]) -> None:
    """No photograph shows changed cards without an intent that says where to and where from, or the end of it."""
    begin = recut(tmp_path / "journal.json")
    w = begin.world
    plan = w.plan(begin.layout)
    whole = watch(w, living, lambda process: w.apply(plan, process))
    first = encode(recut(tmp_path / "untouched.json").world.machine.read())
    last = encode(w.machine.read())
    for number, (left, moment) in enumerate(whole.photographs.items()):
        intent = revived(left, tmp_path / str(number)).journal.read().intent
        assert intent is not None or left[0] in (first, last), moment
        if intent is not None:
            assert {plan.cards[0].card.uuid: plan.cards[0].target} == intent.to
            assert [3] == [len(t.slices) for t in intent.origin.values()]
