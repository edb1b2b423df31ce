"""The C source of the library: ``start.c`` with one function for each name in ``functions.yaml``."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mig_manager.sim.libnvml.functions import ERROR_STRING, Functions, Kind
from mig_manager.sim.model.codes import NvmlCode, error_text
from mig_manager.sim.nvml.library import INIT

_OLDEST_MINOR = 11  # the oldest Python 3 that the product runs on
_PLAIN = frozenset((string.ascii_letters + string.digits + " /._-%:,").encode())
_TYPES: dict[Kind, str] = {"pointer": "const void *", "unsigned": "unsigned "}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that the library starts in programs that have none.

    ``library`` is its libpython, ``program`` the executable of the environment that mig-manager is installed in, and
    ``search_path`` where a Python that is running already finds mig-manager.
    """

    library: Path
    program: Path
    minor: int
    search_path: Sequence[Path]


def source(table: Functions, python: Interpreter) -> str:
    """All of it as one text."""
    return "\n".join([*_settings(python), (Path(__file__).parent / "start.c").read_text(), *_functions(table)]) + "\n"


def _settings(python: Interpreter) -> Iterator[str]:
    yield "#include <stddef.h>"
    yield f"#define PYTHON_LIBRARY {_literal(os.fsencode(python.library))}"
    yield f"#define PYTHON_PROGRAM {_literal(os.fsencode(python.program))}"
    yield f"#define PYTHON_MINOR {python.minor}"
    yield f"#define OLDEST_MINOR {_OLDEST_MINOR}"
    wide = ", ".join(str(ord(character)) for character in f"{python.program}\0")
    yield f"static const wchar_t python_program[] = {{{wide}}};"
    paths = ", ".join(_literal(os.fsencode(path)) for path in python.search_path)
    yield f"static const char *const search_path[] = {{{paths}}};"


def _functions(table: Functions) -> Iterator[str]:
    for name, kinds in table.modelled.items():
        named = list(zip(kinds, "abcdef", strict=False))
        parameters = ", ".join(f"{_TYPES[kind]}{letter}" for kind, letter in named)
        values = ", ".join(f"(uintptr_t){letter}" for _, letter in named)
        letters = "".join(kind[0] for kind in kinds)
        yield f"EXPORTED int {name}({parameters or 'void'})"
        yield "{"
        yield f"    const uint64_t arguments[] = {{{values or '0'}}};"
        yield f'    return {"begin" if name == INIT else "call"}("{name}", "{letters}", arguments);'
        yield "}"
    for name, target in table.same.items():
        yield f'extern EXPORTED __typeof__({target}) {name} __attribute__((alias("{target}")));'
    for name in table.error_only:
        yield f'EXPORTED int {name}(void) {{ return call("{name}", "", NULL); }}'
    yield from _error_string()


def _error_string() -> Iterator[str]:
    yield f"EXPORTED const char *{ERROR_STRING}(int code)"
    yield "{"
    yield "    static _Thread_local char unknown[64];"
    yield "    switch (code) {"
    for code in NvmlCode:
        yield f"    case {code.value}: return {_literal(error_text(code).encode())};"
    yield "    }"
    known, unknown = "4711", error_text(4711)
    yield f"    snprintf(unknown, sizeof unknown, {_literal(unknown.replace(known, '%d').encode())}, code);"
    yield "    return unknown;"
    yield "}"


def _literal(text: bytes) -> str:
    """A C string: what is not plain is written in octal, which ends by itself after three digits."""
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in text) + '"'
