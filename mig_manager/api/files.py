"""Files that describe layouts: a MIGConfig, several of them, a profile, or a mig-parted file.

The kind is recognised by what stands in it. Errors name the file, the line and the path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mig_manager.api.layout import layout_from_dict
from mig_manager.api.migconfig import MIGConfig
from mig_manager.api.migparted import is_mig_parted, layouts_from_mig_parted
from mig_manager.api.rules import is_label_value
from mig_manager.api.schema import INVALID, object_problems, validate_layout
from mig_manager.api.yaml_reader import Document, read_documents
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout

_HINT = "a MIGConfig, a profile (name and gpus) and a mig-parted file (version and mig-configs) do"


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile file: a layout with a name, what it is for and where it comes from."""

    name: str
    layout: Layout
    description: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutFile:
    """What a file holds. ``profiles`` are the layouts that can be chosen by name, in the order of the file."""

    source: str
    configs: tuple[MIGConfig, ...] = ()
    profiles: Mapping[str, Layout] = field(default_factory=dict)

    @property
    def default_profile(self) -> str | None:
        """The name that is meant when none is given: the only layout, or the profile of the only MIGConfig."""
        if len(self.configs) == 1:
            return self.configs[0].profile
        return next(iter(self.profiles)) if len(self.profiles) == 1 and not self.configs else None


def load_file(path: str) -> LayoutFile:
    """Read a file, or standard input for ``-``; raises LayoutError with file and line, or OSError."""
    if path == "-":
        return parse_file(sys.stdin.read(), "standard input")
    return parse_file(Path(path).read_text(encoding="utf-8"), path)


def parse_file(text: str, source: str) -> LayoutFile:
    """Read the text of a file that messages shall call ``source``."""
    configs: list[MIGConfig] = []
    profiles: dict[str, Layout] = {}
    for document, value, path in _parts(text, source):
        try:
            _add(profiles, _read(value, configs))
        except LayoutError as error:
            raise _located(error.at(path) if path else error, source, document) from None
    if not configs and not profiles:
        raise LayoutError(INVALID, "there is nothing in this file", path=source)
    return LayoutFile(source, tuple(configs), profiles)


def problems(text: str, source: str) -> list[LayoutError]:
    """Everything that is wrong with a file; of a document that is not a MIGConfig the first problem only."""
    found: list[LayoutError] = []
    try:
        for document, value, path in _parts(text, source):
            found += [_located(e.at(path) if path else e, source, document) for e in _problems(value)]
        if not found:
            parse_file(text, source)  # what only shows when the documents come together
    except LayoutError as error:
        found.append(error)
    return found


def _problems(value: object) -> list[LayoutError]:
    if _is_config(value):
        return list(object_problems(value, "MIGConfig"))
    try:
        _read(value, [])
    except LayoutError as error:
        return [error]
    return []


def parse_profile(value: Mapping[str, Any]) -> Profile:
    """A profile document: ``{name, description, sources, gpus}``; raises LayoutError (InvalidSpec)."""
    name = value.get("name")
    if not isinstance(name, str) or not is_label_value(name):
        hint = "at most 63 letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
        raise LayoutError(INVALID, f"{name!r} is not a profile name", hint, "name")
    rest = validate_layout({key: item for key, item in value.items() if key != "name"})
    return Profile(name, layout_from_dict(rest, name), rest.get("description", ""), tuple(rest.get("sources", ())))


def _parts(text: str, source: str) -> Iterator[tuple[Document, Any, str]]:
    """Every object of a text with its document and its path there; the items of a List one by one."""
    try:
        for document in read_documents(text):
            value = document.value
            if isinstance(value, Mapping) and str(value.get("kind", "")).endswith("List"):
                items = value.get("items")
                if not isinstance(items, list):
                    raise _located(LayoutError(INVALID, "a List needs items", path="items"), source, document)
                for number, item in enumerate(items):
                    yield document, item, f"items[{number}]"
            else:
                yield document, value, ""
    except LayoutError as error:
        raise error if error.path else error.at(source) from None


def _read(value: object, configs: list[MIGConfig]) -> dict[str, Layout]:
    """The layouts of one document; a MIGConfig is added to ``configs`` as well."""
    if is_mig_parted(value) and isinstance(value, Mapping):
        return layouts_from_mig_parted(value)
    if _is_config(value) and isinstance(value, Mapping):
        config = MIGConfig.from_dict(value)
        configs.append(config)
        return dict(config.profiles)
    if isinstance(value, Mapping) and "gpus" in value:
        profile = parse_profile(value)
        return {profile.name: profile.layout}
    raise LayoutError(INVALID, f"{_what(value)} does not describe a layout", _HINT)


def _add(profiles: dict[str, Layout], found: Mapping[str, Layout]) -> None:
    for name, layout in found.items():
        if profiles.setdefault(name, layout) != layout:
            raise LayoutError(INVALID, f"the profile {name!r} stands twice in this file", "rename one of them")


def _is_config(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("kind") == "MIGConfig"


def _what(value: object) -> str:
    if not isinstance(value, Mapping):
        return "this document"
    what = f"a {value['kind']}" if value.get("kind") else f"a document with {', '.join(value) or 'nothing'}"
    return " ".join(what.split())


def _located(error: LayoutError, source: str, document: Document) -> LayoutError:
    line = document.line(error.path)
    path = f"{source}:{line}: {error.path}".removesuffix(": ")
    return LayoutError(error.reason, error.problem, error.hint, path)
