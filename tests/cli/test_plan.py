"""``mig-manager plan``: sources, targets, the document for programs, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import NOTE, create, document, run, spawn, succeed

CONFIG = """
apiVersion: migmanager.io/v1alpha1
kind: MIGConfig
metadata: {name: pool}
spec:
  nodeSelector: {matchLabels: {pool: a}}
  profile: halves
  devicePluginStrategy: %s
  profiles:
    halves: {gpus: [{slices: [{slice: 3g, count: 2}]}]}
    parts: {gpus: [{slices: [{slice: 2g, compute: [1c, 1c]}]}]}
"""
MIG_PARTED = """
version: v1
mig-configs:
  two: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
  none: [{devices: all, mig-enabled: false}]
"""


def test_document_has_the_promised_shape() -> None:
    """The JSON has the keys and values that programs rely on."""
    found = document("plan", "--gpu", "A100-SXM4-80GB", "--profile", "all-balanced")

    (gpu,) = found["gpus"]
    assert (True, "None") == (found["feasible"], found["impact"])
    assert (0, "A100-SXM4-80GB", None) == (gpu["index"], gpu["model"], gpu["reason"])
    assert gpu["uuid"].startswith("GPU-")
    assert ([], []) == (gpu["keep"], gpu["destroy"])
    assert {
        "profile": "3g.40gb",
        "profileId": 9,
        "start": 4,
        "size": 4,
        "compute": [{"profile": "3c", "start": 0, "size": 3, "busy": False}],
        "busy": False,
    } in gpu["create"]
    assert {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-3g.40gb": 1} == found["resources"]


def test_document_marks_what_is_busy(box: str) -> None:
    """Busy slices are marked whether they stay or go, and the evicted are named."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "2", "--pid", "7", "--name", "a")
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4", "--pid", "8", "--name", "b")

    found = document("plan", "--sim", box, "--profile", "all-1g")

    (gpu,) = found["gpus"]
    assert {2: True, 3: False} == {s["start"]: s["busy"] for s in gpu["keep"]}
    assert {0: False, 4: True} == {s["start"]: s["busy"] for s in gpu["destroy"]}
    assert ["pid 8 (b)"] == found["evict"] == gpu["evict"]
    assert "EvictPods" == found["impact"]


def test_document_of_the_infeasible() -> None:
    """An infeasible plan carries the reason as a word and as a sentence, on the node and on the card."""
    result = run(
        "plan",
        "--gpu",
        "A30",
        "--profile",
        "all-1g",
        "-f",
        "-",
        "-o",
        "json",
        stdin="{name: all-1g, gpus: [{slices: [{slice: 2g, count: 3}]}]}",
    )

    found = json.loads(result.stdout)
    assert 3 == result.exit_code
    assert (False, "LayoutDoesNotFit") == (found["feasible"], found["reason"])
    assert "LayoutDoesNotFit" == found["gpus"][0]["reason"]
    assert "3 × 2g.12gb asked for, the card has at most 2" in found["gpus"][0]["message"]
    assert {} == found["resources"]


def test_yaml_says_the_same_as_json() -> None:
    """YAML and JSON are the same document."""
    import yaml

    arguments = ("plan", "--gpu", "A30*2", "--profile", "all-1g")

    assert document(*arguments) == yaml.safe_load(succeed(*arguments, "-o", "yaml"))


@pytest.mark.parametrize(
    ("profile", "options", "code"),
    [
        ("all-1g", [], 0),
        ("all-1g", ["--detailed-exitcode"], 4),
        ("all-balanced", ["--detailed-exitcode"], 0),
        ("nonsense", [], 2),
    ],
)
def test_exit_codes(box: str, profile: str, options: list[str], code: int) -> None:
    """0 feasible, 4 with --detailed-exitcode when there are changes, 2 for a name that nobody knows."""
    assert code == run("plan", "--sim", box, "--profile", profile, *options).exit_code


def test_offline_cards_are_announced() -> None:
    """Cards on paper are said to be empty with MIG on, apart from the result."""
    result = run("plan", "--gpu", "A30", "--profile", "all-1g")

    assert NOTE == result.stderr
    assert NOTE not in result.stdout


@pytest.mark.parametrize("count", ["x", "0", "-1", "²", "9" * 5000])
def test_counts_of_offline_cards_that_are_none(count: str) -> None:
    """What is no count of cards is one line and bad input."""
    result = run("plan", "--gpu", f"A30*{count}", "--profile", "all-1g")
    assert (2, 1, True) == (
        result.exit_code,
        result.stderr.count("\n"),
        result.stderr.startswith("error: --gpu: 'A30*"),
    )


def test_config_brings_its_profile_and_strategy(tmp_path: Path) -> None:
    """Without --profile a MIGConfig's own profile is planned; its strategy refuses what cannot be advertised."""
    path = tmp_path / "pool.yaml"
    path.write_text(CONFIG % "Mixed")

    assert 2 == len(document("plan", "--gpu", "A100-SXM4-80GB", "-f", str(path))["gpus"][0]["create"])
    refused = document("plan", "--gpu", "A100-SXM4-80GB", "-f", str(path), "--profile", "parts")
    assert "StrategyMismatch" == refused["reason"]


def test_auto_strategy_is_left_to_the_node(tmp_path: Path) -> None:
    """Strategy Auto does not forbid anything offline, because the node decides."""
    path = tmp_path / "pool.yaml"
    path.write_text(CONFIG % "Auto")

    assert document("plan", "--gpu", "A100-SXM4-80GB", "-f", str(path), "--profile", "parts")["feasible"]


def test_names_not_in_the_file_are_known_too(tmp_path: Path) -> None:
    """With -f, --profile may also name a shipped or derived layout, as a node label may."""
    path = tmp_path / "pool.yaml"
    path.write_text(CONFIG % "Auto")

    assert document("plan", "--gpu", "A30", "-f", str(path), "--profile", "all-1g")["feasible"]


def test_mig_parted_file(tmp_path: Path) -> None:
    """A mig-parted file is planned by the name of its entry, and asked for it when there are several."""
    path = tmp_path / "config.yaml"
    path.write_text(MIG_PARTED)

    found = document("plan", "--gpu", "A100-SXM4-80GB", "-f", str(path), "--profile", "two")
    asked = run("plan", "--gpu", "A100-SXM4-80GB", "-f", str(path))

    assert ["3g.40gb", "3g.40gb"] == [s["profile"] for s in found["gpus"][0]["create"]]
    assert (2, f"error: {path}: which layout? choose one with --profile: two, none\n") == (
        asked.exit_code,
        asked.stderr,
    )


def test_layout_from_standard_input() -> None:
    """-f - reads standard input."""
    text = succeed("plan", "--gpu", "A30", "-f", "-", stdin="{name: x, gpus: [{slices: [{slice: 2g, start: 2}]}]}")

    assert "create   2g.12gb at 2" in text


def test_machine_with_mig_off_plans_the_mode(tmp_path: Path) -> None:
    """On a machine as delivered the plan begins with the change of mode."""
    box = create(tmp_path, "A100-SXM4-80GB*2", mig=False)

    found = document("plan", "--sim", box, "--profile", "all-1g")

    assert [True, True] == [gpu["reset"] for gpu in found["gpus"]]
    assert {"current": False, "pending": False, "planned": True} == found["gpus"][0]["mig"]


def test_planning_changes_nothing(box: str) -> None:
    """Planning writes nothing, neither to the machine nor beside it."""
    before = Path(box).read_bytes()
    files = sorted(Path(box).parent.iterdir())

    succeed("plan", "--sim", box, "--profile", "all-1g")

    assert (before, files) == (Path(box).read_bytes(), sorted(Path(box).parent.iterdir()))


def test_live_machine_without_driver() -> None:
    """Without a driver the error says what is missing and how to work without a GPU, and the exit code is 1."""
    result = spawn("plan", "--profile", "all-1g", env={"PATH": "/usr/bin:/bin"})

    assert (1, "", 1) == (result.returncode, result.stdout, result.stderr.count("\n"))
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith("; without a GPU: --sim FILE, or plan --gpu MODEL\n")
