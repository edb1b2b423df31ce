"""``mig-manager profiles``, ``inspect`` and ``validate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mig_manager.geometry.cards import products
from mig_manager.resources import shipped
from tests.cli.commands import NOTE, create, document, run, succeed


def test_profiles_of_a_card() -> None:
    """Every profile with id, sizes, starts and published figures; unknown ones are a dash."""
    lines = succeed("profiles", "--gpu", "GH200-144GB").splitlines()

    assert "GH200-144GB: 8 memory units" == lines[0]
    assert ["1g.36gb", "15", "1", "2", "4", "0,", "2,", "4,", "6", "36096", "26"] == lines[4].split()[:11]
    assert ["3g.72gb", "9", "3", "4", "2", "0,", "4", "-", "-"] == lines[6].split()[:9]
    assert any("all-1g.18gb.me" in line for line in lines)


def test_profiles_of_a_card_for_programs() -> None:
    """The document has figures as numbers and what is unknown as null."""
    (card,) = document("profiles", "--gpu", "RTX-PRO-6000-Server")["gpus"]

    gfx = next(p for p in card["profiles"] if p["name"] == "2g.48gb+gfx")
    assert (12, 35, [0, 6], None, 2) == (card["units"], gfx["id"], gfx["starts"], gfx["engines"]["copy"], gfx["count"])
    assert "all-2g.48gb.gfx" in card["layouts"]


def test_profiles_of_a_machine(tmp_path: Path) -> None:
    """Each kind of card of a machine is listed once; a card without MIG is said to be one."""
    box = create(tmp_path, "A30*2", "T4")

    text = succeed("profiles", "--sim", box)

    assert 1 == text.count("A30: 4 memory units")
    assert text.endswith("T4: no MIG\n")
    assert ["A30", "T4"] == [gpu["model"] for gpu in document("profiles", "--sim", box)["gpus"]]


def test_machine_without_gpus() -> None:
    """A machine without a GPU is told as such, and no layout is feasible on it."""
    state = "{apiVersion: migmanager.io/v1alpha1, kind: MachineState, profileTables: {}, gpus: []}"

    assert "This machine has no NVIDIA GPU.\n" == succeed("profiles", "--from", "-", stdin=state)
    assert "This machine has no NVIDIA GPU.\n" == succeed("inspect", "--from", "-", stdin=state)
    assert 3 == run("plan", "--from", "-", "--profile", "all-1g", stdin=state).exit_code


def test_everything_there_is() -> None:
    """Without a card: every product, and every shipped and derived layout with what it is for."""
    text = succeed("profiles")
    found = document("profiles")

    assert [p.model for p in products()] == [line.split()[0] for line in text.splitlines()[1 : len(products()) + 1]]
    assert [p.model for p in products()] == [p["model"] for p in found["products"]]
    for name in (*(layout["name"] for layout in found["layouts"]), "all-balanced", "all-disabled"):
        assert f"  {name}\n" in text


def test_inspect_marks_modes_and_users(box: str) -> None:
    """The drawing shows the mode and who uses which slice; documents have UUIDs."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4", "--name", "train")

    text, wide = succeed("inspect", "--sim", box), succeed("inspect", "--sim", box, "-o", "wide")
    (gpu,) = document("inspect", "--sim", box)["gpus"]

    assert "MIG on │2g.20gb" in text
    assert "  busy  3g.40gb at 4: pid 4711 (train)" in text
    assert {"current": True, "pending": True} == {k: gpu["mig"][k] for k in ("current", "pending")}
    (compute,) = next(s["compute"] for s in gpu["slices"] if s["start"] == 4)
    assert compute["uuid"].startswith("MIG-")
    assert compute["uuid"] in wide


def test_inspect_of_cards_on_paper() -> None:
    """Cards on paper can be looked at, with the note that they are on paper."""
    result = run("inspect", "--gpu", "A30")

    assert (0, NOTE) == (result.exit_code, result.stderr)


def test_shipped_profiles_are_valid() -> None:
    """All shipped profiles pass, and it is said which products they fit."""
    files = sorted(map(str, shipped("profiles").glob("*.yaml")))

    text = succeed("validate", *files)

    assert len(files) == text.count(": valid\n")
    assert "  graphics: fits RTX-PRO-6000-Workstation, RTX-PRO-6000-Max-Q, RTX-PRO-6000-Server\n" in text


def test_every_problem_has_its_line(tmp_path: Path) -> None:
    """All problems of all files are printed, each on one line with file, line and path; the exit code is 2."""
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text(
        "apiVersion: migmanager.io/v1alpha1\nkind: MIGConfig\nmetadata: {name: a}\nspec:\n  nodeSelector: {}\n"
        "  profile: x\n  profiles:\n    x:\n      gpus:\n      - slices: [{slice: 3gg}]\n      - slcies: []\n"
    )
    good.write_text("{name: g, gpus: [{slices: [{slice: 1g}]}]}")

    result = run("validate", str(bad), str(good))

    problems = result.stderr.splitlines()
    assert 2 == result.exit_code
    assert all(line.startswith(f"error: {bad}:") for line in problems)
    assert any(f"{bad}:10: spec.profiles.x.gpus[0].slices[0].slice: '3gg'" in line for line in problems)
    assert any("slcies" in line and "gpus[1]" in line for line in problems)
    assert f"{good}: valid\n" in result.stdout


def test_where_a_layout_does_not_fit(tmp_path: Path) -> None:
    """For a sound layout it is said on which of its products it cannot be, and why; others do not matter."""
    path = tmp_path / "l.yaml"
    path.write_text(
        "{name: l, gpus: [{match: {models: [A30, A100-SXM4-80GB, X9000], indices: [7]}, count: 3,"
        " slices: [{slice: 3g, count: 2}]}]}"
    )

    text = succeed("validate", str(path))
    (report,) = document("validate", str(path))["files"]

    assert "  l: fits A100-SXM4-80GB\n" in text
    assert "  l: not A30: gpus[0].slices[0]: this card has no profile 3g\n" in text
    assert "  l: gpus[0].match.models[2]: no card is called 'X9000'; known ones" in text
    (layout,) = report["layouts"]
    assert (["A100-SXM4-80GB"], ["A30"]) == (layout["fits"], [item["model"] for item in layout["doesNotFit"]])


def test_profile_that_nobody_knows(tmp_path: Path) -> None:
    """A MIGConfig whose profile is neither its own nor shipped nor derived is refused with near names."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: migmanager.io/v1alpha1\nkind: MIGConfig\nmetadata: {name: pool}\n"
        "spec: {nodeSelector: {matchLabels: {a: b}}, profile: all-balancd}\n"
    )

    result = run("validate", str(path), "-o", "json")

    (report,) = json.loads(result.stdout)["files"]
    assert (2, "UnknownProfile") == (result.exit_code, report["problems"][0]["reason"])
    assert "did you mean all-balanced" in report["problems"][0]["message"]


@pytest.mark.parametrize("arguments", [("missing.yaml",), ("a", "a"), ()])
def test_files_that_are_not_there(arguments: tuple[str, ...]) -> None:
    """No file, the same file twice and a missing file are bad input in one line."""
    result = run("validate", *arguments)

    assert (2, 1, "") == (result.exit_code, result.stderr.count("\n"), result.stdout)


def test_profile_of_a_config_that_is_not_its_own(tmp_path: Path) -> None:
    """The layout that a MIGConfig takes from elsewhere is judged too."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: migmanager.io/v1alpha1\nkind: MIGConfig\nmetadata: {name: pool}\n"
        "spec: {nodeSelector: {matchLabels: {a: b}}, profile: graphics}\n"
    )

    assert "  graphics: fits RTX-PRO-6000-Workstation, " in succeed("validate", str(path))


def test_entries_for_particular_cards_hide_nothing(tmp_path: Path) -> None:
    """An entry for one index does not keep the entries below it from being judged."""
    path = tmp_path / "l.yaml"
    path.write_text(
        "{name: l, gpus: [{match: {indices: [1]}, mig: Disabled}, {slices: [{slice: 1g}, {slice: 3g, count: 2}]}]}"
    )

    assert "  l: not A30, RTX-PRO-6000-Workstation, " in succeed("validate", str(path))
    assert "need 9 of 8 memory units\n" in succeed("validate", str(path))
