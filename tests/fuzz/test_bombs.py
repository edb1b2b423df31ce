"""Files that are small and would take all time or memory: an error of one line, within limits that the system sets."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.cli.commands import spawn
from tests.fuzz.profile import one_line

CPU_S, MEMORY_BYTES = 10, 1 << 30
ENTRY = "{devices: all, mig-enabled: false}"
HEAD = "version: v1\nmig-configs:"


def layers(name: str, first: str, layer: str) -> str:
    """Nine anchors, each of which stands for ten times the one before."""
    lines = [f"{name}0: &{name}0 {first}"]
    lines += [f"{name}{i}: &{name}{i} {layer.replace('*', ', '.join([f'*{name}{i - 1}'] * 10))}" for i in range(1, 10)]
    return "\n".join(lines)


BOMBS = {
    "aliases": (f"{layers('a', f'[{ENTRY}]', '[*]')}\n{HEAD} {{x: *a9}}", "aliases stand for"),
    "configurations": (f"{HEAD}\n  " + layers("a", f"[{ENTRY}]", "[*]").replace("\n", "\n  "), "aliases stand for"),
    "merge keys": (f"{layers('a', '{devices: all}', '{<<: [*]}')}\n{HEAD} {{x: [*a9]}}", "aliases stand for"),
    "itself": (f"{HEAD} {{x: &x [*x]}}", "refers to itself"),
    "brackets": (f"{HEAD} {'[' * 10**6}", "line 2: "),
    "braces": (f"{HEAD} {'{a: ' * 10**5}{'}' * 10**5}", "line 2: "),
    "indents": ("\n".join([HEAD, *(f"{' ' * i}a:" for i in range(1, 2000))]), "line "),
    "dashes": (f"{HEAD}\n {'- ' * 10**5}", "line 3: "),
    "a count": (
        f"{HEAD} {{x: [{{devices: all, mig-enabled: true, mig-devices: {{1g.5gb: {10**90}}}}}]}}",
        "no card has",
    ),
    "digits": (f"{HEAD} {{x: [{{devices: [{'9' * 10**6}], mig-enabled: false}}]}}", "a number of 1000000 characters"),
    "sixties": (
        f"{HEAD} {{x: [{{devices: [{'1:' * 10**6}1], mig-enabled: false}}]}}",
        "a number of 2000001 characters",
    ),
    "a key": (f"{HEAD} {{? {'[' * 10**5}{']' * 10**5} : 1}}", "line 2: "),
    "the same key": (f"{HEAD} {{{', '.join(['x: []'] * 10**4)}}}", "the key 'x' stands here again"),
    "configuration's name": (f"{HEAD} {{? {'x' * 10**6}\n : 1}}", "mig-configs.xxx"),
}


def limit() -> None:
    """What the program may take."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(bomb: str, tmp_path: Path) -> None:
    """A file that nobody could write out is bad input, said in one line, before it takes what the machine has."""
    text, problem = BOMBS[bomb]
    path = tmp_path / "f.yaml"
    path.write_text(text)
    result = spawn("plan", "--gpu", "A30", "--profile", "x", "-f", str(path), preexec_fn=limit)
    assert (2, 1) == (result.returncode, result.stderr.count("\n"))
    one_line(result.stderr.rstrip("\n"), "f.yaml")
    assert problem in result.stderr
