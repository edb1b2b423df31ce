"""The host file by which a repartition survives a crash: the open intent, the last good layout, and what was learnt.

An intent is written before the first thing is destroyed and says where to go and where it came from; whoever starts
next finishes it or goes back. Closing it and setting the new last good layout are one write, so there is no moment
in which the file says neither or both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from mig_manager.gpu.records import entry, targets_from_json, targets_to_json
from mig_manager.planner.target import CardTarget

DEFAULT_PATH = Path("/var/lib/mig-manager/journal.json")
SCHEMA = 1

Targets = Mapping[str, CardTarget]
"""What each card shall look like, by GPU UUID."""

StuckMeans = Literal["reset", "reboot"]

_T = TypeVar("_T")


class JournalError(Exception):
    """The journal cannot be read or written; the message says which file, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that has begun: ``id`` names what ordered it, ``created`` is a UTC time in ISO 8601.

    ``reboot`` says that a reboot of the machine is part of it, and ``boot_id`` is the boot on which that was asked for;
    it is empty before.
    """

    id: str
    created: str
    to: Targets
    origin: Targets
    reboot: bool = False
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Stuck:
    """MIG modes that would not become current: by card UUID, what was said when it was tried.

    ``means`` is what was tried, a reset or even a reboot. It is known for one boot only: another one may do better.
    """

    boot_id: str
    means: StuckMeans
    cards: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of the machine, bus ids by UUID, as they were when ``wish`` was first seen."""

    wish: str
    cards: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Record:
    """What the journal says. ``last_good`` holds the cards whose layout was reached and read back.

    ``failed`` says what went wrong when a change failed and was not taken back; it stays until something good is
    reached, and is empty otherwise.
    """

    last_good: Targets = field(default_factory=dict)
    intent: Intent | None = None
    failed: str = ""
    stuck: Stuck | None = None
    inventory: Inventory | None = None


class Journal:
    """The journal at one path. Writers must hold the host lock (``mig_manager.gpu.lock``)."""

    def __init__(self, path: Path = DEFAULT_PATH) -> None:
        self.path = path

    def read(self) -> Record:
        """What is recorded; an empty record where no file is. JournalError when the file cannot be understood."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Record()
        except (OSError, UnicodeDecodeError) as error:
            raise JournalError(f"reading {self.path}: {error}") from error
        try:
            return _decode(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise JournalError(
                f"reading {self.path}: {error}; it may hold an unfinished change: "
                "compare the cards with what you expect, then move the file away"
            ) from error

    def begin(self, intent: Intent) -> None:
        """Record an intent, or what has become of it; all else stays."""
        self._write(replace(self.read(), intent=intent))

    def drop(self, stuck: Stuck | None = None) -> None:
        """Close the intent as if it had never been, with what was learnt by it; the last good layout stays."""
        before = self.read()
        self._write(replace(before, intent=None, stuck=stuck or before.stuck))

    def close(self, last_good: Targets, *, failed: str = "", stuck: Stuck | None = None) -> None:
        """Close the intent, if any, and set the last good layout, in one write with whatever was learnt."""
        before = self.read()
        self._write(replace(before, last_good=last_good, intent=None, failed=failed, stuck=stuck or before.stuck))

    def take_stock(self, inventory: Inventory) -> None:
        """Record which cards there are; all else stays."""
        self._write(replace(self.read(), inventory=inventory))

    def _write(self, record: Record) -> None:
        text = json.dumps(_encode(record), indent=1) + "\n"
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise JournalError(f"writing {self.path}: {error.strerror}; nothing may be changed without it") from error


def _encode(record: Record) -> dict[str, object]:
    intent, stuck, inventory = record.intent, record.stuck, record.inventory
    found: dict[str, object] = {
        "schema": SCHEMA,
        "lastGood": targets_to_json(record.last_good),
        "intent": intent
        and {
            "id": intent.id,
            "created": intent.created,
            "to": targets_to_json(intent.to),
            "from": targets_to_json(intent.origin),
            **({"reboot": True, "bootID": intent.boot_id} if intent.reboot else {}),
        },
    }
    if record.failed:
        found["failed"] = record.failed
    if stuck is not None:
        found["stuck"] = {"bootID": stuck.boot_id, "means": stuck.means, "cards": dict(stuck.cards)}
    if inventory is not None:
        found["inventory"] = {"wish": inventory.wish, "cards": dict(inventory.cards)}
    return found


def _decode(value: object) -> Record:
    schema = entry(value, "schema", int)
    if schema != SCHEMA:
        raise ValueError(f"schema {schema} is not {SCHEMA}, the one this version writes")
    last_good = targets_from_json(entry(value, "lastGood", dict))
    found = cast("dict[str, object]", value)  # entry() insists on it
    return Record(
        last_good=last_good,
        intent=None if found.get("intent", ...) is None else _intent(entry(found, "intent", dict)),
        failed=entry(found, "failed", str) if "failed" in found else "",
        stuck=_if_there(found, "stuck", _stuck),
        inventory=_if_there(found, "inventory", _inventory),
    )


def _if_there(found: Mapping[str, object], key: str, read: Callable[[Any], _T]) -> _T | None:
    return read(entry(found, key, dict)) if key in found else None


def _intent(found: Mapping[str, object]) -> Intent:
    return Intent(
        id=entry(found, "id", str),
        created=entry(found, "created", str),
        to=targets_from_json(entry(found, "to", dict)),
        origin=targets_from_json(entry(found, "from", dict)),
        reboot="reboot" in found and entry(found, "reboot", bool),
        boot_id=entry(found, "bootID", str) if "reboot" in found else "",
    )


def _stuck(found: Mapping[str, object]) -> Stuck:
    means = entry(found, "means", str)
    if means not in get_args(StuckMeans):
        raise ValueError(f"{means!r} is no means that this version knows")
    return Stuck(entry(found, "bootID", str), means, _strings(entry(found, "cards", dict)))


def _inventory(found: Mapping[str, object]) -> Inventory:
    return Inventory(entry(found, "wish", str), _strings(entry(found, "cards", dict)))


def _strings(found: Mapping[str, object]) -> dict[str, str]:
    return {key: entry(found, key, str) for key in found}
