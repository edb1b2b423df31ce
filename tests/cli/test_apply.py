"""``mig-manager apply`` on simulated machines: what it does, refuses, undoes and finishes."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mig_manager.cli.machines import open_machine
from mig_manager.gpu.journal import Intent, Journal
from mig_manager.gpu.lock import HostLock
from mig_manager.gpu.nvml import NvmlSession
from mig_manager.gpu.result import Result
from mig_manager.planner.target import CardTarget, target_of
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.nvml import installed
from tests.cli.commands import create, document, run, succeed


def starts(box: str) -> list[tuple[str, int]]:
    """What lies where on the first card."""
    (gpu, *_) = document("inspect", "--sim", box)["gpus"]
    return sorted((s["profile"], s["start"]) for s in gpu["slices"])


def test_applies_and_reports_every_call(tmp_path: Path) -> None:
    """The plan, every call and the result are printed, and afterwards the machine has the layout."""
    box = create(tmp_path, "A30")

    text = succeed("apply", "--sim", box, "--profile", "all-2g")

    assert "Feasible: keep 0, create 2, destroy 0; impact None." in text
    assert "  creating GPU instance 2g.12gb at 2 on GPU 0\n" in text
    assert text.endswith("Applied: the GPUs are as planned.\n")
    assert [("2g.12gb", 0), ("2g.12gb", 2)] == starts(box)


def test_is_idempotent(box: str) -> None:
    """The second time there is nothing to do, and nothing is done."""
    before = Path(box).read_bytes()

    text = succeed("apply", "--sim", box, "--profile", "all-balanced")

    assert text.endswith("Nothing to do: the cards are as planned.\n")
    assert before == Path(box).read_bytes()


def test_switches_mode_and_resets(tmp_path: Path) -> None:
    """MIG is switched on where the layout needs it, also where that takes a reset."""
    box = create(tmp_path, "A100-SXM4-80GB", "H100-SXM5-80GB", "T4", mig=False)

    succeed("apply", "--sim", box, "--profile", "all-1g")

    modes = [gpu["mig"]["current"] for gpu in document("inspect", "--sim", box)["gpus"]]
    assert [True, True, None] == modes


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_refuses_when_something_in_use_would_go(box: str, options: tuple[str, ...]) -> None:
    """With 5 and the names of those in the way; nothing is changed."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4", "--pid", "8", "--name", "train")
    before = Path(box).read_bytes()

    result = run("apply", "--sim", box, "--profile", "all-1g", *options)

    message = "error: applying the layout would destroy slices used by pid 8 (train); end or move them first\n"
    assert (5, message) == (result.exit_code, result.stderr)
    assert before == Path(box).read_bytes()


def test_refusal_for_programs(box: str) -> None:
    """The refusal is in the document, too."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "4", "--pid", "8")

    result = run("apply", "--sim", box, "--profile", "all-1g", "-o", "json")

    assert 5 == result.exit_code
    found = json.loads(result.stdout)["result"]
    assert ("Refused", "InUse", ["pid 8 (python)"]) == tuple(found[k] for k in ("outcome", "reason", "holders"))


def test_busy_slices_that_the_layout_wants_stay(box: str) -> None:
    """A busy slice that the layout wants too survives with its user."""
    succeed("sim", "hold", box, "--gpu", "0", "--start", "2", "--pid", "8")

    succeed("apply", "--sim", box, "--profile", "all-1g")

    assert "busy  1g.10gb at 2: pid 8 (python)" in succeed("inspect", "--sim", box)


def test_dry_run_changes_nothing(box: str) -> None:
    """A dry run prints the plan and writes nothing, not even a journal."""
    files = {p: p.read_bytes() for p in Path(box).parent.rglob("*") if p.is_file()}

    text = succeed("apply", "--sim", box, "--profile", "all-1g", "--dry-run")

    assert "Feasible: " in text
    assert files == {p: p.read_bytes() for p in Path(box).parent.rglob("*") if p.is_file()}


def test_not_feasible(box: str) -> None:
    """An infeasible layout exits with 3 and changes nothing."""
    layout = "{name: x, gpus: [{slices: [{slice: 3g, count: 3}]}]}"

    result = run("apply", "--sim", box, "-f", "-", stdin=layout)

    assert (3, "") == (result.exit_code, result.stderr)
    assert "Not feasible (LayoutDoesNotFit)" in result.stdout


def test_failure_is_rolled_back(box: str) -> None:
    """When a call fails the machine is as before, the error names the call, and the exit code is 1."""
    before = starts(box)
    succeed(
        *("sim", "fault", box, "--function", "nvmlDeviceCreateGpuInstanceWithPlacement"),
        *("--code", "INSUFFICIENT_RESOURCES", "--call", "2"),
    )

    result = run("apply", "--sim", box, "--profile", "all-1g")

    assert 1 == result.exit_code
    assert result.stderr.startswith("error: creating GPU instance 1g.10gb at ")
    assert result.stderr.endswith("; the GPUs are as they were before\n")
    assert before == starts(box)


def test_unseen_users_are_not_hurt(box: str) -> None:
    """A user that NVML does not list makes the call fail; everything is undone, and the exit code is 1."""
    before = starts(box)
    Machine.open(box).hold(0, start=4, visible=False)
    succeed("sim", "fault", box, "--function", "nvmlGpuInstanceDestroy", "--code", "NO_PERMISSION")

    result = run("apply", "--sim", box, "--profile", "all-disabled")

    assert (1, before) == (result.exit_code, starts(box))


def test_result_for_programs(box: str) -> None:
    """The document is the plan as it was made, with what came of it."""
    found = document("apply", "--sim", box, "--profile", "all-1g")

    assert ("Applied", None) == (found["result"]["outcome"], found["result"]["reason"])
    assert "destroying GPU instance 3g.40gb at 4 on GPU 0" in found["result"]["calls"]
    assert [4] == [s["start"] for s in found["gpus"][0]["destroy"] if s["profile"] == "3g.40gb"]


def test_interrupted_run_is_finished_first(box: str) -> None:
    """An open intent of a run that was killed is finished, said, and then the new layout is planned."""
    with open_machine(box) as machine:
        (card,) = machine.view().cards
    origin = target_of(card)
    to = CardTarget(card.uuid, mig=True, slices=tuple(s for s in origin.slices if s.placement.start not in (2, 4)))
    journal = Journal(Path(f"{box}.journal/journal.json"))
    journal.begin(Intent("x", "2026-01-01T00:00:00+00:00", {card.uuid: to}, {card.uuid: origin}))
    Machine.open(box).remove_instance(0, start=2)

    result = run("apply", "--sim", box, "--profile", "all-balanced")

    assert (0, "note: an earlier run was interrupted; it is finished now\n") == (result.exit_code, result.stderr)
    assert "destroying GPU instance 3g.40gb at 4 on GPU 0" in result.stdout
    assert None is journal.read().intent


def test_one_at_a_time(box: str) -> None:
    """While another process changes the machine, apply says which and does nothing."""
    lock = HostLock(Path(f"{box}.journal/lock"))
    try:
        result = run("apply", "--sim", box, "--profile", "all-1g")
    finally:
        lock.release()

    assert 1 == result.exit_code
    assert "is changing the GPUs of this host; stop it or wait for it" in result.stderr


def test_state_directory(box: str, tmp_path: Path) -> None:
    """--state-dir says where journal and lock are."""
    succeed("apply", "--sim", box, "--profile", "all-1g", "--state-dir", str(tmp_path / "state"))

    assert ["journal.json", "lock"] == sorted(p.name for p in (tmp_path / "state").iterdir())


def test_damaged_journal(box: str) -> None:
    """A journal that cannot be read stops everything with one line, because it may hold an unfinished change."""
    before = Path(box).read_bytes()
    Path(f"{box}.journal/journal.json").write_text("{")

    result = run("apply", "--sim", box, "--profile", "all-1g")

    assert (1, 1) == (result.exit_code, result.stderr.count("\n"))
    assert before == Path(box).read_bytes()


def test_reset_makes_a_pending_mode_current(box: str) -> None:
    """A mode that was asked for while the card was used is pending; apply resets the card when it is free."""
    succeed("sim", "hold", box, "--gpu", "0", "--pid", "8")
    machine = Machine.open(box)
    machine.set_mig(0, enabled=False)
    assert machine.card(0).mig_current
    succeed("sim", "free", box)

    text = succeed("apply", "--sim", box, "--profile", "all-disabled")

    assert "  mode     MIG on → off, by a reset of GPU 0\n" in text
    assert "  resetting GPU 0\n" in text
    assert not Machine.open(box).card(0).mig_current


def test_reset_that_is_refused(box: str) -> None:
    """When the reset is refused because of somebody NVML does not list, all is as before, and it is said."""
    before = starts(box)
    machine = Machine.open(box)
    machine.hold(0, start=4, visible=False)
    succeed("sim", "hold", box, "--gpu", "0", "--pid", "8")
    machine.set_mig(0, enabled=False)
    succeed("sim", "free", box, "--pid", "8")

    result = run("apply", "--sim", box, "--profile", "all-disabled")

    assert (1, before) == (result.exit_code, starts(box))
    assert result.stderr.startswith("error: ")


def test_live_machine(box: str, tmp_path: Path) -> None:
    """Without --sim the same commands work on the library that this machine has."""
    state = str(tmp_path / "state")
    with installed(Machine.open(box)):
        text = succeed("apply", "--profile", "all-1g", "--state-dir", state)
        shown = succeed("inspect")
        again = succeed("apply", "--profile", "all-1g", "--state-dir", state)

    assert text.endswith("Applied: the GPUs are as planned.\n")
    assert again.endswith("Nothing to do: the cards are as planned.\n")
    assert succeed("inspect", "--sim", box) == shown


def test_state_directory_that_is_forbidden(box: str, mocker: MockerFixture) -> None:
    """Who may not write the state directory is told what changing GPUs needs, and nothing is changed."""
    before = Path(box).read_bytes()
    mocker.patch("mig_manager.gpu.lock.os.open", side_effect=PermissionError(13, "Permission denied", "/var/x"))

    result = run("apply", "--sim", box, "--profile", "all-1g")

    message = "error: /var/x: Permission denied; changing the GPUs of a machine needs root\n"
    assert (1, message) == (result.exit_code, result.stderr)
    assert before == Path(box).read_bytes()


def test_earlier_run_that_cannot_be_healed(box: str) -> None:
    """When an interrupted run can be neither finished nor undone, nothing new is begun."""
    with open_machine(box) as machine:
        (card,) = machine.view().cards
    origin = target_of(card)
    to = CardTarget(card.uuid, mig=True, slices=tuple(s for s in origin.slices if s.placement.start not in (2, 4)))
    Journal(Path(f"{box}.journal/journal.json")).begin(Intent("x", "2026", {card.uuid: to}, {card.uuid: origin}))
    Machine.open(box).remove_instance(0, start=2)
    for function in ("nvmlComputeInstanceDestroy", "nvmlDeviceCreateGpuInstanceWithPlacement"):
        succeed("sim", "fault", box, "--function", function, "--code", "UNKNOWN")

    result = run("apply", "--sim", box, "--profile", "all-balanced")

    assert (1, 0) == (result.exit_code, result.stdout.count("before"))
    assert result.stderr.startswith("error: finishing an earlier run: ")


def test_interrupt_while_applying(box: str, mocker: MockerFixture) -> None:
    """Ctrl-C in the middle says what becomes of the half-done change, and the next run takes care of it."""
    before = starts(box)
    real = NvmlSession.create_gpu_instance
    calls = iter([real, KeyboardInterrupt])

    def create_gpu_instance(*arguments: Any) -> int:  # noqa: ANN401 - those of the real one
        step = next(calls)
        if step is KeyboardInterrupt:
            raise KeyboardInterrupt
        return real(*arguments)

    patched = mocker.patch.object(NvmlSession, "create_gpu_instance", create_gpu_instance)
    result = run("apply", "--sim", box, "--profile", "all-1g")
    mocker.stop(patched)

    message = "error: interrupted; the next apply finishes or undoes what was begun\n"
    assert (130, message) == (result.exit_code, result.stderr)
    assert before != starts(box)
    assert (
        "note: an earlier run was interrupted; it is finished now"
        in run("apply", "--sim", box, "--profile", "all-1g").stderr
    )
    assert 7 == len(starts(box))


def test_user_that_comes_after_the_plan(box: str, mocker: MockerFixture) -> None:
    """Somebody who starts to use a slice between plan and apply is not hurt: exit code 5, nothing changed."""
    before = starts(box)
    module = importlib.import_module("mig_manager.cli.apply")
    real: Callable[..., Result] = module._apply

    def hold_and_apply(*arguments: Any, **options: Any) -> Result:  # noqa: ANN401 - those of the real one
        Machine.open(box).hold(0, start=4, pid=8)
        return real(*arguments, **options)

    mocker.patch.object(module, "_apply", hold_and_apply)
    result = run("apply", "--sim", box, "--profile", "all-1g")

    assert (5, before) == (result.exit_code, starts(box))
    assert "pid 8 (python)" in result.stderr
    assert result.stderr.endswith("; nothing was changed\n")
