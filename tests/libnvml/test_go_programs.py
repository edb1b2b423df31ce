"""A program in Go on NVIDIA's own modules, go-nvml and go-nvlib: hack/conformance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mig_manager.sim.model.hardware import figure, hardware
from mig_manager.sim.model.machine import Machine
from tests.cli.commands import document
from tests.libnvml.programs import output, seeing

IN_USE, INSUFFICIENT_RESOURCES = 19, 23
SHOWN = ("index", "uuid", "name", "deviceId", "busId", "minor", "memoryMiB")
PROFILE_3G = 2  # NVML_GPU_INSTANCE_PROFILE_3_SLICE


def told(conformance: Path, library: Path, machine: Machine, *commands: str) -> list[Any]:
    """What the program answers to commands."""
    text = output(conformance, env=seeing(library, machine), stdin="\n".join(commands))
    return [json.loads(line) for line in text.splitlines()]


def inspected(machine: Machine) -> list[dict[str, Any]]:
    """What ``mig-manager inspect`` says of the same, in the program's form."""
    return [
        {
            **{name: gpu[name] for name in SHOWN},
            "current": bool(gpu["mig"]["current"]),
            "pending": bool(gpu["mig"]["pending"]),
            "slices": by_id({key: value for key, value in s.items() if key != "profile"} for s in gpu["slices"]),
        }
        for gpu in document("inspect", "--sim", str(machine.store.path))["gpus"]
    ]


def by_id(slices: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The program lists by profile, we by place."""
    return sorted(
        ({**s, "compute": sorted(s["compute"], key=lambda c: int(c["id"]))} for s in slices), key=lambda s: int(s["id"])
    )


def shown(cards: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the program said of the cards, in a fixed order."""
    return [{**card, "slices": by_id(card["slices"])} for card in cards]


def test_it_sees_what_inspect_shows(library: Path, conformance: Path, machine: Machine) -> None:
    """Cards with their slices and compute instances, through go-nvml."""
    machine.add_instance(0, "3g.40gb", start=4)
    machine.add_instance(0, "2g.20gb", start=0, compute_widths=[1, 1])
    machine.add_instance(2, "1g.6gb", start=3, compute_widths=[])
    machine.set_mig(1, enabled=False)

    (seen,) = told(conformance, library, machine, "show")

    assert inspected(machine) == shown(seen)


def test_it_enumerates_profiles(library: Path, conformance: Path, tmp_path: Path) -> None:
    """Ids, sizes, places, engines, names and what fits, in all versions of the structures, on cards of each grid."""
    models = ["A100-SXM4-80GB", "H100-SXM5-80GB", "A30", "RTX-PRO-6000-Server"]
    machine = Machine.create(tmp_path / "box.sim", models, mig=True)

    seen = told(conformance, library, machine, *(f"profiles {index}" for index in range(len(models))))

    for model, profiles in zip(models, seen, strict=True):
        table = hardware(model).table
        assert table is not None
        expected: list[dict[str, Any]] = [
            {
                "constant": profile.constant,
                "id": profile.id,
                "name": f"MIG {profile}",
                "slices": profile.slice_count,
                "count": profile.instance_count,
                "starts": [place.start for place in profile.placements],
                "size": profile.size,
                "memoryMiB": figure(profile.memory_mib),
                "multiprocessors": figure(profile.multiprocessors),
                "engines": [figure(number) for number in astuple(profile.engines)],
                "capabilities": 2 if profile.attributes == "+gfx" else 0,
                "remaining": profile.instance_count,
            }
            for profile in table
        ]
        assert sorted(expected, key=lambda p: int(p["constant"])) == profiles


def test_it_creates_lists_and_destroys(library: Path, conformance: Path, machine: Machine) -> None:
    """A whole life of slices in one process: what it made is what inspect shows, and go-nvlib names its MIG devices."""
    made = told(
        conformance,
        library,
        machine,
        f"create 1 {PROFILE_3G} 4",
        f"create 1 {PROFILE_3G} 4",
        "compute 1 2 0",
        "compute 1 2 1",
        "compute 1 2 1",
        "destroy 1 2",
        "devices",
        "show",
    )
    assert [{"id": 2}, {"id": 0}, {"id": 1}] == [made[0], made[2], made[3]]
    assert [INSUFFICIENT_RESOURCES, INSUFFICIENT_RESOURCES, IN_USE] == [made[i]["code"] for i in (1, 4, 5)]
    assert "In use by another client" == made[5]["text"]
    assert [["1c.3g.40gb", "2c.3g.40gb"]] == [
        [mig["profile"] for mig in device["devices"]] for device in made[6] if device["devices"]
    ]
    assert {"3g.40gb", "1c.3g.40gb", "1g.10gb+me"} <= set(made[6][1]["profiles"])
    assert inspected(machine) == shown(made[7])

    gone = told(conformance, library, machine, "destroy 1 2 1", "destroy 1 2 0", "destroy 1 2", "show", "mode 1 0")
    assert [{}, {}, {}] == gone[:3]
    assert [] == [instance for card in gone[3] for instance in card["slices"]]
    assert [] == machine.card(1).instances


def test_a_card_without_mig(library: Path, conformance: Path, machine: Machine) -> None:
    """It is listed, and offers nothing."""
    devices, profiles = told(conformance, library, machine, "devices", "profiles 3")
    assert [True, True, True, False] == [device["mig"] for device in devices]
    assert [] == devices[3]["profiles"] == profiles
