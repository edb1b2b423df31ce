"""``mig-manager sim``: making simulated machines and doing to them what happens to real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from mig_manager.sim.model.machine import Machine
from tests.cli.commands import create, document, run, spawn, succeed


def test_create_says_what_it_made(tmp_path: Path) -> None:
    """Cards in the order given, MIG off as delivered unless asked."""
    path = tmp_path / "m.sim"

    text = succeed("sim", "create", str(path), "--gpu", "A100-SXM4-80GB*2", "--gpu", "A30")

    assert f"{path}: 2 × A100-SXM4-80GB, 1 × A30; MIG is off\n" == text
    models = [gpu["model"] for gpu in document("inspect", "--sim", str(path))["gpus"]]
    assert ["A100-SXM4-80GB", "A100-SXM4-80GB", "A30"] == models


def test_create_is_reproducible(tmp_path: Path) -> None:
    """The same arguments give the same machine, whenever and wherever."""
    first = create(tmp_path, "A30*2")
    before = Path(first).read_bytes()

    succeed("sim", "create", first, "--gpu", "A30*2", "--mig", "--force")

    assert before == Path(first).read_bytes()


def test_create_on_numa_nodes(tmp_path: Path) -> None:
    """Each GPU is on the NUMA node that is said, and what is no number is refused."""
    path = str(tmp_path / "box.sim")
    succeed("sim", "create", path, "--gpu", "A30*2", "--numa", "1,0")

    assert [1, 0] == [card.numa_node for card in Machine.open(path).read().cards]
    result = run("sim", "create", path + "2", "--gpu", "A30*2", "--numa", "0,x")
    assert (2, True) == (result.exit_code, "'x' is no NUMA node; write one number for each GPU" in result.stderr)
    result = run("sim", "create", path + "2", "--gpu", "A30", "--numa", "9" * 10)
    assert (2, True) == (result.exit_code, "'9999999999' is no NUMA node" in result.stderr)


def test_create_does_not_overwrite(box: str) -> None:
    """A file that exists is left alone without --force, which the error names."""
    before = Path(box).read_bytes()

    result = run("sim", "create", box, "--gpu", "A30")

    assert (2, f"error: {box} exists; choose another file, or overwrite it with --force\n") == (
        result.exit_code,
        result.stderr,
    )
    assert before == Path(box).read_bytes()


def test_hold_and_free(box: str) -> None:
    """A process uses a slice until it is ended."""
    assert "pid 4711 (python) uses the slice at 4 of GPU 0\n" == succeed(
        "sim", "hold", box, "--gpu", "0", "--start", "4"
    )
    assert "pid 9 (smi) uses the whole GPU of GPU 0\n" == succeed(
        "sim", "hold", box, "--gpu", "0", "--pid", "9", "--name", "smi"
    )

    assert "ended: pid 4711 (python)\n" == succeed("sim", "free", box, "--gpu", "0", "--start", "4")
    assert "ended: pid 9 (smi)\n" == succeed("sim", "free", box)
    assert "busy" not in succeed("sim", "show", box)


def test_reset_is_refused_while_used(box: str) -> None:
    """A used card is not reset; a free one loses its slices."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4")

    refused = run("sim", "reset", box, "--gpu", "0")
    succeed("sim", "free", box)

    assert 1 == refused.exit_code
    assert refused.stderr.startswith("error: resetting GPU 0")
    assert "GPU 0: reset\n" == succeed("sim", "reset", box, "--gpu", "0")
    assert [] == document("inspect", "--sim", box)["gpus"][0]["slices"]


def test_reboot_keeps_the_mode_on_ampere_only(tmp_path: Path) -> None:
    """After a restart slices are gone everywhere, and MIG mode is gone on Hopper."""
    box = create(tmp_path, "A100-SXM4-80GB", "H100-SXM5-80GB")
    succeed("apply", "--sim", box, "--profile", "all-1g")

    succeed("sim", "reboot", box)

    gpus = document("inspect", "--sim", box)["gpus"]
    assert [(True, []), (False, [])] == [(gpu["mig"]["current"], gpu["slices"]) for gpu in gpus]


def test_faults_are_set_listed_and_taken_back(box: str) -> None:
    """A fault by name or number, on some calls or every, with latency; listed with the machine; cleared at once."""
    succeed("sim", "fault", box, "--function", "nvmlDeviceSetMigMode", "--silent")
    text = succeed(
        *("sim", "fault", box, "--function", "nvmlGpuInstanceDestroy", "--code", "in_use"),
        *("--call", "2", "--call", "3", "--latency-ms", "5"),
    )

    assert "fault  nvmlDeviceSetMigMode  every call: nothing, silently (0 calls so far)\n" in text
    assert "fault  nvmlGpuInstanceDestroy  call 2, 3: IN_USE, 5 ms (0 calls so far)\n" in text
    assert text == succeed("sim", "fault", box)
    assert text in succeed("sim", "show", box)
    assert [[], [2, 3]] == [f["calls"] if f["calls"] != "every" else [] for f in document("sim", "show", box)["faults"]]
    assert "no faults are set\n" == succeed("sim", "fault", box, "--clear")


@pytest.mark.parametrize("option", ["--code", "--call"])
def test_numbers_of_thousands_of_digits(box: str, option: str) -> None:
    """A number that no driver knows is bad input."""
    result = run("sim", "fault", box, "--function", "nvmlDeviceGetName", option, "9" * 5000)
    assert (2, 1, True) == (result.exit_code, result.stderr.count("\n"), result.stderr.startswith(f"error: {option}: "))


def test_code_by_number(box: str) -> None:
    """Codes of nvml.h are taken by number and with their full name, too."""
    text = succeed("sim", "fault", box, "--function", "nvmlDeviceGetName", "--code", "999", "--call", "every")
    assert "every call: UNKNOWN" in text
    text = succeed("sim", "fault", box, "--function", "nvmlDeviceGetName", "--code", "NVML_ERROR_NOT_SUPPORTED")
    assert "every call: NOT_SUPPORTED" in text


def test_fault_strikes_another_process(box: str) -> None:
    """A fault set by one process fails the call in another, with the driver's words."""
    succeed("sim", "fault", box, "--function", "nvmlDeviceGetCount_v2", "--code", "GPU_IS_LOST")

    result = spawn("inspect", "--sim", box)

    assert (1, "", 1) == (result.returncode, result.stdout, result.stderr.count("\n"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--gpu", "9", "--start", "0"),
        ("--gpu", "0", "--start", "1"),
        ("--gpu", "0", "--pid", "0"),
        ("--gpu", "zero"),
        ("--start", "0"),
    ],
)
def test_holding_what_is_not_there(box: str, arguments: tuple[str, ...]) -> None:
    """A card or slice that is not there is bad input in one line, and nothing changes."""
    before = Path(box).read_bytes()

    result = run("sim", "hold", box, *arguments)

    assert (2, 1) == (result.exit_code, result.stderr.count("\n"))
    assert before == Path(box).read_bytes()
