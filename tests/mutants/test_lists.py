"""The lists of the mutation run name what is there: one that has rotted guards nothing, and nobody would notice."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import lines

ROOT = Path(__file__).parents[2]
LEFT_OUT = {
    "tests/agent/test_agent_process.py",  # real processes
    "tests/agent/test_faults.py",  # the matrices
    "tests/agent/test_gpu_faults.py",
    "tests/agent/test_kills.py",
    "tests/agent/test_outages.py",
    "tests/gpu/test_faults.py",
    "tests/gpu/test_kills.py",
    "tests/drain/test_differential.py",  # a real API server
    "tests/agent/test_judge.py",  # what tests are made of, and what surrounds the steps
    "tests/agent/test_put_together.py",
    "tests/agent/test_worker.py",
    "tests/gpu/test_journal.py",
    "tests/gpu/test_library.py",
    "tests/gpu/test_plausible.py",
    "tests/gpu/test_session.py",
}
"""Test files beside the selected ones that mutants need not meet."""

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


def mutants(file: str) -> Iterator[str]:
    """What mutmut calls the first mutant of each function in a file."""
    module = file.removesuffix(".py").replace("/", ".")
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield f"{module}.x_{node.name}__mutmut_1"
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{module}.xǁ{node.name}ǁ{method.name}__mutmut_1"


@pytest.mark.parametrize("pattern", lines("guards.txt"))
def test_guards_are_there(pattern: str) -> None:
    """Every pattern names functions in a file that is mutated."""
    assert any(fnmatchcase(name, pattern) for file in SETTINGS["only_mutate"] for name in mutants(file))


@pytest.mark.parametrize("path", SETTINGS["pytest_add_cli_args_test_selection"])
def test_selected_tests_are_there(path: str) -> None:
    """Every test that judges the mutants exists."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize("entry", lines("harmless.txt"))
def test_harmless_mutants_are_of_code_that_is_there(entry: str) -> None:
    """What is said to change nothing is said of lines that exist."""
    lost, arrow, _ = entry.partition("  ->  ")
    assert arrow
    assert any(lost in " ".join((ROOT / file).read_text(encoding="utf-8").split()) for file in SETTINGS["only_mutate"])


def test_tests_that_mutants_meet() -> None:
    """A test file that is new or was renamed is selected, or left out for a reason: else its guards seem to survive."""
    selected = set(SETTINGS["pytest_add_cli_args_test_selection"])
    there = {
        f"tests/{part}/{path.name}"
        for part in ("agent", "drain", "gpu")
        for path in (ROOT / "tests" / part).glob("test_*.py")
    }
    assert there == {name for name in selected if name.endswith(".py")} | LEFT_OUT
