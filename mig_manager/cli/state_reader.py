"""Reading a document field by field, with errors that say where in it something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mig_manager.geometry.errors import LayoutError
from mig_manager.wording import shortened

_SHOWN_CHARACTERS = 40
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Node:
    """A value and its place: ``path`` inside the document called ``source``."""

    value: Any
    source: str
    path: str

    def error(self, problem: str, hint: str = "") -> LayoutError:
        """The error that this value is wrong."""
        return LayoutError("InvalidState", problem, hint, f"{self.source}: {self.path}".removesuffix(": "))

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors about the value itself get its place."""
        try:
            yield
        except LayoutError as error:
            raise self.error(error.problem, error.hint) from error

    def field(self, name: str) -> Node:
        """A field of this mapping; an error if it is none or has no such field."""
        path = f"{self.path}.{name}".removeprefix(".")
        if name not in self.mapping():
            raise Node(None, self.source, path).error("this field is missing")
        return Node(self.value[name], self.source, path)

    def mapping(self) -> Mapping[str, Node]:
        """The fields of this mapping."""
        if not isinstance(self.value, Mapping):
            raise self._not("a mapping")
        return {str(key): Node(value, self.source, f"{self.path}.{key}") for key, value in self.value.items()}

    def items(self) -> list[Node]:
        """The items of this list."""
        if not isinstance(self.value, list):
            raise self._not("a list")
        return [Node(value, self.source, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        """This text."""
        if not isinstance(self.value, str):
            raise self._not("text")
        return self.value

    def one_of(self, choices: Sequence[str]) -> str:
        """This text, which must be one of the choices."""
        if self.value not in choices:
            raise self._not(f"one of {', '.join(choices)}")
        return self.text()

    def flag(self) -> bool:
        """This truth value."""
        if not isinstance(self.value, bool):
            raise self._not("true or false")
        return self.value

    def number(self, least: int = 0, most: int = _LARGEST) -> int:
        """This whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            limits = f"from {least} to {most}" if most != _LARGEST else f"of at least {least}"
            raise self._not(f"a whole number {limits}")
        return self.value

    def optional_number(self) -> int | None:
        """This whole number, or ``None``."""
        return None if self.value is None else self.number()

    def optional_flag(self) -> bool | None:
        """This truth value, or ``None``."""
        return None if self.value is None else self.flag()

    def _not(self, kind: str) -> LayoutError:
        return self.error(f"{shortened(repr(self.value), _SHOWN_CHARACTERS)} is not {kind}")
