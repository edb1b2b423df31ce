"""The host file by which a repartition survives a crash: the open intent, and the last good layout.

An intent is written before the first thing is destroyed and says where to go and where it came from; whoever starts
next finishes it or goes back. Closing it and setting the new last good layout are one write, so there is no moment
in which the file says neither or both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mig_manager.gpu.records import entry, targets_from_json, targets_to_json
from mig_manager.planner.target import CardTarget

DEFAULT_PATH = Path("/var/lib/mig-manager/journal.json")
SCHEMA = 1

Targets = Mapping[str, CardTarget]
"""What each card shall look like, by GPU UUID."""


class JournalError(Exception):
    """The journal cannot be read or written; the message says which file, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that has begun: ``id`` names what ordered it, ``created`` is a UTC time in ISO 8601."""

    id: str
    created: str
    to: Targets
    origin: Targets


@dataclass(frozen=True, slots=True)
class Record:
    """What the journal says. ``last_good`` holds the cards whose layout was reached and read back."""

    last_good: Targets = field(default_factory=dict)
    intent: Intent | None = None


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
        """Record an intent; the last good layout stays."""
        self._write(replace(self.read(), intent=intent))

    def drop(self) -> None:
        """Close the intent as if it had never been; the last good layout stays."""
        self._write(replace(self.read(), intent=None))

    def close(self, last_good: Targets) -> None:
        """Close the intent, if any, and set the last good layout, in one write."""
        self._write(Record(last_good))

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
    intent = record.intent
    return {
        "schema": SCHEMA,
        "lastGood": targets_to_json(record.last_good),
        "intent": intent
        and {
            "id": intent.id,
            "created": intent.created,
            "to": targets_to_json(intent.to),
            "from": targets_to_json(intent.origin),
        },
    }


def _decode(value: object) -> Record:
    schema = entry(value, "schema", int)
    if schema != SCHEMA:
        raise ValueError(f"schema {schema} is not {SCHEMA}, the one this version writes")
    last_good = targets_from_json(entry(value, "lastGood", dict))
    # entry() insists that value is a mapping
    if isinstance(value, dict) and value.get("intent", ...) is None:
        return Record(last_good)
    found = entry(value, "intent", dict)
    return Record(
        last_good,
        Intent(
            id=entry(found, "id", str),
            created=entry(found, "created", str),
            to=targets_from_json(entry(found, "to", dict)),
            origin=targets_from_json(entry(found, "from", dict)),
        ),
    )
