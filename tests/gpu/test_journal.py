"""The journal and the host lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.geometry.profiles import Placement
from mig_manager.gpu.journal import Intent, Inventory, Journal, JournalError, Record, Stuck
from mig_manager.gpu.lock import HostLock, LockedError
from mig_manager.gpu.records import target_from_json, target_to_json, targets_from_json, targets_to_json
from mig_manager.planner.target import CardTarget, TargetSlice

numbers = st.integers(0, 127)
placements = st.builds(Placement, numbers, numbers)
slices = st.builds(TargetSlice, placements, numbers, st.lists(placements, max_size=3).map(tuple))
targets = st.builds(CardTarget, st.just("GPU-1"), st.booleans(), st.lists(slices, max_size=4).map(tuple))

OFF = {"GPU-1": CardTarget("GPU-1", mig=False)}
FULL = {"GPU-1": CardTarget("GPU-1", mig=True, slices=(TargetSlice(Placement(0, 8), 0, (Placement(0, 7),)),))}
INTENT = Intent("41", "2026-01-02T03:04:05+00:00", FULL, OFF)


@given(targets)
def test_targets_survive_json(target: CardTarget) -> None:
    """What is written down is what is read back."""
    assert target == target_from_json("GPU-1", json.loads(json.dumps(target_to_json(target))))
    assert {"GPU-1": target} == targets_from_json(json.loads(json.dumps(targets_to_json({"GPU-1": target}))))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], r"\[\] is not a mapping of GPU UUIDs"),
        ({"GPU-1": {"slices": []}}, "has no mig of type bool"),
        ({"GPU-1": {"mig": 1, "slices": []}}, "has no mig of type bool"),
        ({"GPU-1": {"mig": True, "slices": [{"start": 0, "size": 8, "compute": []}]}}, "has no profileId of type int"),
        ({"GPU-1": {"mig": True, "slices": [7]}}, "7 has no start of type int"),
    ],
)
def test_bad_targets_are_refused(value: object, problem: str) -> None:
    """What no version of this program wrote is an error that shows the value."""
    with pytest.raises(ValueError, match=problem):
        targets_from_json(value)


def test_no_file_is_an_empty_record(tmp_path: Path) -> None:
    """A host on which nothing was ever done has neither a last good layout nor an intent."""
    assert Record({}, None) == Journal(tmp_path / "journal.json").read()


def test_life_of_an_intent(tmp_path: Path) -> None:
    """An intent is begun beside the last good layout, and closing it sets the new one."""
    journal = Journal(tmp_path / "below" / "journal.json")
    journal.close(OFF)
    journal.begin(INTENT)
    assert Record(OFF, INTENT) == Journal(journal.path).read()
    journal.drop()
    assert Record(OFF, None) == journal.read()
    journal.begin(INTENT)
    journal.close(FULL)
    assert Record(FULL, None) == journal.read()
    assert [journal.path] == list(journal.path.parent.iterdir())


def test_what_was_learnt_is_kept(tmp_path: Path) -> None:
    """What failed is remembered until something good is reached; a stuck mode and the inventory stay beside it."""
    journal = Journal(tmp_path / "journal.json")
    stuck, inventory = Stuck("boot-1", "reset", {"GPU-1": "not supported"}), Inventory("wish", {"GPU-1": "07:00.0"})
    journal.take_stock(inventory)
    journal.begin(INTENT)
    journal.close({}, failed="no room", stuck=stuck)
    assert Record({}, None, "no room", stuck, inventory) == Journal(journal.path).read()
    for boot_id in ("", "boot-1"):
        intent = replace(INTENT, reboot=True, boot_id=boot_id)
        journal.begin(intent)
        assert Record({}, intent, "no room", stuck, inventory) == Journal(journal.path).read()
    again = Stuck("boot-2", "reboot", {"GPU-1": "still pending"})
    journal.drop(again)
    assert Record({}, None, "no room", again, inventory) == Journal(journal.path).read()
    journal.begin(INTENT)
    journal.drop()
    journal.close(FULL)
    assert Record(FULL, None, "", again, inventory) == Journal(journal.path).read()


def test_shape_of_the_file(tmp_path: Path) -> None:
    """The file is what others may read: these keys, with a schema number."""
    journal = Journal(tmp_path / "journal.json")
    journal.begin(INTENT)
    full = {"mig": True, "slices": [{"profileId": 0, "start": 0, "size": 8, "compute": [{"start": 0, "size": 7}]}]}
    assert {
        "schema": 1,
        "lastGood": {},
        "intent": {
            "id": "41",
            "created": "2026-01-02T03:04:05+00:00",
            "to": {"GPU-1": full},
            "from": {"GPU-1": {"mig": False, "slices": []}},
        },
    } == json.loads(journal.path.read_text())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ('{"schema": 1, "lastGood": {', "Expecting"),
        ("[]", "has no schema of type int"),
        ('{"schema": 2}', "schema 2 is not 1"),
        ('{"schema": 1, "lastGood": {}}', "has no intent of type dict"),
        ('{"schema": 1, "lastGood": {}, "intent": {"id": 41}}', "has no id of type str"),
        ('{"schema": 1, "lastGood": {}, "intent": null, "failed": true}', "has no failed of type str"),
        ('{"schema": 1, "lastGood": {}, "intent": null, "stuck": null}', "has no stuck of type dict"),
        ('{"schema": 1, "lastGood": {}, "intent": null, "stuck": {"means": "a prayer"}}', "is no means that this"),
    ],
)
def test_damaged_file_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """A file that cannot be understood is never taken for an empty one, and is not overwritten."""
    journal = Journal(tmp_path / "journal.json")
    journal.path.write_text(text)
    with pytest.raises(JournalError, match=problem) as caught:
        journal.read()
    assert str(caught.value).startswith(f"reading {journal.path}: ")
    assert str(caught.value).endswith("then move the file away")
    with pytest.raises(JournalError):
        journal.begin(INTENT)
    assert text == journal.path.read_text()


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    """So is one that cannot be read at all."""
    with pytest.raises(JournalError, match="Is a directory"):
        Journal(tmp_path).read()
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(JournalError, match="utf-8"):
        Journal(tmp_path / "binary").read()


def test_unwritable_file_is_an_error(tmp_path: Path) -> None:
    """A journal that cannot be written says so, and what it said before stays."""
    journal = Journal(tmp_path / "journal.json")
    journal.close(OFF)
    (tmp_path / "journal.json.tmp").mkdir()
    with pytest.raises(JournalError, match="nothing may be changed without it"):
        journal.close(FULL)
    assert Record(OFF) == journal.read()


def test_torn_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that does not get to its end changes nothing, and the next one is not disturbed by its rest."""
    journal = Journal(tmp_path / "journal.json")
    journal.close(OFF)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(JournalError, match="No space left on device"):
            journal.begin(INTENT)
    assert Record(OFF, None) == journal.read()
    journal.begin(INTENT)
    assert Record(OFF, INTENT) == journal.read()


def test_lock_names_its_holder(tmp_path: Path) -> None:
    """A second program is told which process has the lock, and gets it when that has let go."""
    path = tmp_path / "below" / "lock"
    lock = HostLock(path)
    with pytest.raises(LockedError, match=f"locking {path}: process {os.getpid()} is changing the GPUs of this host"):
        HostLock(path)
    lock.release()
    HostLock(path).release()


def test_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A process that is killed leaves no lock behind, whatever it wrote into the file."""
    path = tmp_path / "lock"
    code = (
        "import os, signal, sys; from pathlib import Path; from mig_manager.gpu.lock import HostLock; "
        "lock = HostLock(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert -9 == done.returncode
    assert path.read_text().strip().isdigit()
    HostLock(path).release()
