"""``mig-manager export``: a machine written down is the same machine elsewhere."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.cli.output import format_document
from mig_manager.cli.state_document import machine_document, parse_machine, read_machine
from mig_manager.geometry.cards import products
from mig_manager.geometry.derived import derived_layout, derived_names
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.offline import offline_cards
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, Holders, SliceKey
from mig_manager.planner.node import plan_node
from tests.cli.commands import document, run, succeed

MODELS = [p.model for p in products() if p.table is not None or not p.mig_capable]


@st.composite
def machines(draw: st.DrawFn) -> tuple[tuple[Card, ...], Holders]:
    """Machines of several products, some cards cut by a derived layout, some slices held."""
    cards = offline_cards(draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=4)))
    cut, holders = [], {}
    for card in cards:
        if card.table is None:
            cut.append(card)
            continue
        layout = derived_layout(draw(st.sampled_from([n for n in derived_names(card.table) if n != "all-disabled"])))
        target = plan_node([card], {}, layout).cards[0].target
        assert target is not None
        instances = tuple(
            GpuInstance(
                id=number,
                profile_id=s.profile_id,
                placement=s.placement,
                compute=tuple(ComputeInstance(i, c, f"MIG-{number}-{i}") for i, c in enumerate(s.compute)),
            )
            for number, s in enumerate(target.slices)
        )
        cut.append(replace(card, instances=instances))
        for instance in instances:
            if draw(st.booleans()):
                name = draw(st.text(min_size=1, max_size=8))
                holders[SliceKey(card.uuid, instance.id, draw(st.sampled_from([None, 0])))] = frozenset(
                    {Holder(name, draw(st.booleans())), Holder("ml/b")}
                )
    return tuple(cut), holders


@given(machines(), st.sampled_from(["json", "yaml"]))
@settings(max_examples=25, deadline=None)
def test_reading_what_was_written(machine: tuple[tuple[Card, ...], Holders], form: str) -> None:
    """Cards and holders come back equal, through JSON and through YAML."""
    assert machine == parse_machine(format_document(machine_document(*machine), form), "it")


def test_plan_elsewhere_is_the_plan_here(box: str, tmp_path: Path) -> None:
    """The plan from an exported state is the plan on the machine, to the last key."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4")
    state = tmp_path / "state.yaml"
    state.write_text(succeed("export", "--sim", box))

    here = document("plan", "--sim", box, "--profile", "all-1g")

    assert here == document("plan", "--from", str(state), "--profile", "all-1g")


def test_through_a_pipe(box: str) -> None:
    """--from - reads standard input, JSON as well as YAML."""
    state = succeed("export", "--sim", box, "-o", "json")

    assert "3g.40gb" in succeed("inspect", "--from", "-", stdin=state)
    assert json.loads(state) == json.loads(succeed("export", "--from", "-", "-o", "json", stdin=state))


def test_different_tables_of_one_model_are_kept_apart() -> None:
    """Two cards of one model that report different profiles, as under two drivers, keep their own tables."""
    first, second = offline_cards(["A30*2"])
    other = replace(second, table=replace(second.profiles, profiles=second.profiles.profiles[:-1]))

    written = machine_document([first, other], {})

    assert ["A30", "A30-2"] == list(written["profileTables"])
    assert ((first, other), {}) == read_machine(written, "it")


def damaged(change: str, value: object) -> dict[str, Any]:
    """A sound document in which the value at a path is replaced; ``...`` takes it out."""
    (card,) = offline_cards(["A100-SXM4-80GB"])
    instance = GpuInstance(1, 9, Placement(0, 4), (ComputeInstance(0, Placement(0, 3)),))
    whole = machine_document(
        [replace(card, instances=(instance,))], {SliceKey(card.uuid, 1, 0): frozenset({Holder("a")})}
    )
    found: Any = copy.deepcopy(whole)
    place = found
    *path, last = change.split(".")
    for key in path:
        place = place[int(key) if key.isdigit() else key]
    name: Any = int(last) if last.isdigit() else last
    if value is ...:
        del place[name]
    else:
        place[name] = value
    return dict(found)


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        ("kind", "MIGConfig", "it: this is not a MachineState of migmanager.io/v1alpha1"),
        ("kind", ..., "it: kind: this field is missing"),
        ("gpus", {}, "it: gpus: {} is not a list"),
        ("gpus.0", 7, "it: gpus[0]: 7 is not a mapping"),
        ("gpus.0.index", True, "it: gpus[0].index: True is not a whole number of at least 0"),
        ("gpus.0.uuid", 7, "it: gpus[0].uuid: 7 is not text"),
        ("gpus.0.memoryMiB", 0, "it: gpus[0].memoryMiB: 0 is not a whole number of at least 1"),
        ("gpus.0.mig.current", "yes", "it: gpus[0].mig.current: 'yes' is not true or false"),
        ("gpus.0.mig.change", "boot", "it: gpus[0].mig.change: 'boot' is not one of reset, immediate"),
        (
            "gpus.0.profileTable",
            "B",
            "it: gpus[0].profileTable: there is no profile table 'B'; there are A100-SXM4-80GB",
        ),
        ("gpus.0.slices.0.start", 1, "it: gpus[0].slices[0]: the GPU's profile table has no such profile or placement"),
        ("gpus.0.slices.0.profileId", 99, "it: gpus[0].slices[0]: the GPU's profile table has no such profile"),
        ("gpus.0.holders.0.gpuInstance", 5, "it: gpus[0].holders[0]: the GPU has no such slice"),
        ("profileTables.A100-SXM4-80GB.units", 1000, "units: 1000 is not a whole number from 1 to 64"),
        ("profileTables.A100-SXM4-80GB.profiles", [], "profiles: a card with MIG has at least one profile"),
        ("profileTables.A100-SXM4-80GB.profiles.0.name", "x" * 80, "is not a slice name"),
        ("profileTables.A100-SXM4-80GB.profiles.0.starts", [8], "starts[0]: 8 is not a whole number from 0 to 7"),
        ("profileTables.A100-SXM4-80GB.profiles.0.engines", [], "five engines: copy, decoder, encoder, jpeg, ofa"),
        ("profileTables.A100-SXM4-80GB.profiles.0.count", 10**9, "count: 1000000000 is not a whole number from 1 to 8"),
        (
            "profileTables.A100-SXM4-80GB.profiles.0.compute.0.starts",
            [10**12],
            "compute[0].starts[0]: 1000000000000 is not a whole number from 0 to 7",
        ),
        ("gpus.0.slices.0.compute.0.size", 10**12, "size: 1000000000000 is not a whole number from 1 to"),
        ("profileTables.A100-SXM4-80GB.profiles.0.id", 20, "two profiles have the same id"),
    ],
)
def test_damaged_documents(change: str, value: object, message: str) -> None:
    """Every damage is found and named with its place."""
    with pytest.raises(LayoutError) as caught:
        read_machine(damaged(change, value), "it")

    assert message in str(caught.value)
    assert "InvalidState" == caught.value.reason


def test_a_table_without_compute_instances_gives_a_reason() -> None:
    """What a damaged or unread table does not offer is not feasible, with a reason, and no crash."""
    state = damaged("kind", "MachineState")
    for profile in state["profileTables"]["A100-SXM4-80GB"]["profiles"]:
        profile["compute"] = []

    result = run("plan", "--from", "-", "--profile", "all-1g", stdin=json.dumps(state))

    assert 3 == result.exit_code
    assert "a 1g.10gb has no compute instance of 1 slices" in " ".join(result.stdout.split())


def test_overlapping_slices_and_equal_cards() -> None:
    """What cannot lie on a card, or be two cards, is refused."""
    overlapping = damaged("kind", "MachineState")
    overlapping["gpus"][0]["slices"] *= 2
    twice = damaged("kind", "MachineState")
    twice["gpus"] *= 2

    with pytest.raises(LayoutError, match="two slices lie on the units"):
        read_machine(overlapping, "it")
    with pytest.raises(LayoutError, match="stands above already"):
        read_machine(twice, "it")


@pytest.mark.parametrize("text", ["", "a: 1\n---\nb: 2\n", "a: [", "- 1"])
def test_no_state_at_all(text: str) -> None:
    """What is not a state document is refused in one line."""
    result = run("plan", "--from", "-", "--profile", "all-1g", stdin=text)

    assert (2, 1) == (result.exit_code, result.stderr.count("\n"))
    assert result.stderr.startswith("error: standard input: ")
