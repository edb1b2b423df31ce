"""A state that no machine can come to is refused with its place and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError

A100 = "A100-SXM4-80GB"


def change(document: Any, path: str, value: object) -> None:  # noqa: ANN401 - JSON is anything
    """Set ``cards.0.minor`` of a machine."""
    *steps, last = path.split(".")
    for step in steps:
        document = document[int(step) if step.isdigit() else step]
    if last.isdigit():
        document[int(last)] = value
    else:
        document[last] = value


CARD, GI = "machine.cards.0", "machine.cards.0.instances.0"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("machine.driver", 1, "machine.driver: 1 is not text that can be printed"),
        ("machine.driver", "a\nb", r'machine.driver: "a\nb" is not text that can be printed'),
        ("machine.root", 1, "machine.root: 1 is not true or false"),
        ("machine.generation", True, "machine.generation: true is not a whole number from 0 to 4294967295"),
        ("machine.generation", -1, "machine.generation: -1 is not a whole number"),
        ("machine.generation", 1.5, "machine.generation: 1.5 is not a whole number"),
        ("machine.cards", {}, "machine.cards: {} is not a list"),
        ("machine.cards.0", "x" * 50, f'machine.cards[0]: "{"x" * 38}… is not an object'),
        ("machine.quirks", None, "machine.quirks: null is not an object"),
        ("machine.faults", [{"function": "f", "calls": []}], "machine.faults[0].calls: [] is not a call"),
        ("machine.faults", [{"function": "f", "calls": "never"}], '.calls: "never" is not one of every'),
        ("machine.faults", [{"function": "f", "calls": ["1"]}], '.calls[0]: "1" is not a whole number'),
        ("machine.faults", [{}], "machine.faults[0]: {} is not complete: function is missing"),
        (f"{CARD}.model", "A101", 'machine.cards[0].model: "A101" is not a card that can be simulated'),
        (f"{CARD}.uuid", "", 'machine.cards[0].uuid: "" is not a UUID'),
        (f"{CARD}.bus_id", "07:00.0", 'machine.cards[0].bus_id: "07:00.0" is not a PCI address'),
        (f"{CARD}.bus_id", "0:0:0.0", 'machine.cards[0].bus_id: "0:0:0.0" is not a PCI address'),
        (f"{CARD}.minor", 1, "machine.cards[1].minor: 1 is not its own: another has it too"),
        (
            "machine.cards.1.mig_current",
            True,
            "machine.cards[1].mig_current: true is not possible: the card has no MIG",
        ),
        (
            "machine.cards.1.mig_pending",
            True,
            "machine.cards[1].mig_pending: true is not possible: the card has no MIG",
        ),
        (f"{GI}.profile_id", 77, "machine.cards[0].instances[0].profile_id: 77 is not a profile of the card"),
        (f"{GI}.start", 9, "machine.cards[0].instances[0].start: 9 is not a place of 3g.40gb with size 4"),
        ("machine.cards.0.instances.1.start", 4, "instances[1].start: 4 is not free: another instance lies there"),
        (f"{GI}.compute.0.profile_id", 5, "compute[0].profile_id: 5 is not a compute instance profile of 3g.40gb"),
        (f"{GI}.compute.0.start", 7, "compute[0].start: 7 is not a place of it with size 1"),
        (f"{GI}.compute.1.start", 2, "compute[1].start: 2 is not free: another compute instance lies there"),
        (f"{GI}.compute.1.id", 0, "machine.cards[0].instances[0].compute[1].id: 0 is not its own"),
        ("machine.cards.0.clients.0.gpu_instance", "1", '.clients[0].gpu_instance: "1" is not a whole number'),
        ("machine.cards.0.clients.0.kind", "other", '.kind: "other" is not one of compute, graphics, mps'),
        ("machine.cards.0.clients.0.kind", [], ".kind: [] is not one of compute, graphics, mps"),
    ],
)
def test_damage_is_named(tmp_path: Path, path: str, value: object, problem: str) -> None:
    """Every value of a file is checked, with its neighbours, before anything is made of it."""
    file = tmp_path / "box.sim"
    machine = Machine.create(file, [A100, "T4"])
    with machine.change() as state:
        state.cards[0].mig_current = state.cards[0].mig_pending = True
    machine.add_instance(0, "3g", start=4, compute_widths=(1, 1))
    machine.add_instance(0, "1g", start=0)
    machine.hold(0, start=0)
    document = json.loads(file.read_text())
    change(document, path, value)
    file.write_text(json.dumps(document))
    with pytest.raises(MachineError) as caught:
        Machine.open(file)
    assert problem in str(caught.value)
    assert f"{file}: the state of the simulated machine is damaged (machine" in str(caught.value)


def test_too_many_cards(tmp_path: Path) -> None:
    """No node has so many."""
    file = tmp_path / "box.sim"
    Machine.create(file, [A100])
    document = json.loads(file.read_text())
    document["machine"]["cards"] *= 17
    file.write_text(json.dumps(document))
    with pytest.raises(MachineError, match=r"machine\.cards: 17 is not at most 16 cards"):
        Machine.open(file)
