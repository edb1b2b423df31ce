"""Run the mutants of the guards and fail if one survives that is not known to change nothing.

mutmut makes the mutants and runs the tests; this module chooses which (``guards.txt``) and judges the result against
``harmless.txt``. Run by ``make mutants``; it takes a while.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CAUGHT = ("killed", "timeout")
"""A test that no longer ends has noticed the change as well as one that fails."""
MUTMUT = (sys.executable, "-m", "mutmut")


def lines(name: str) -> list[str]:
    """The lines of a file beside this one, without comments."""
    text = (HERE / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def mutmut(*arguments: str) -> str:
    """What a mutmut command prints."""
    return subprocess.run([*MUTMUT, *arguments], check=True, capture_output=True, text=True).stdout


def change(mutant: str) -> list[str]:
    """The lines that a mutant takes out and puts in."""
    shown = [
        line for line in mutmut("show", mutant).splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    return [f"{line[0]} {line[1:].strip()}" for line in shown]


def main() -> int:
    """Run, report survivors with their change, and say whether all of them are known to be harmless."""
    subprocess.run([*MUTMUT, "run", *lines("guards.txt")], check=True)
    states = [line.strip().rpartition(": ")[::2] for line in mutmut("results", "--all", "true").splitlines()]
    checked = [(name, state) for name, state in states if state and state != "not checked"]
    harmless = {tuple(entry.split("  ->  ")) for entry in lines("harmless.txt")}
    bad = 0
    for name, state in checked:
        if state in CAUGHT:
            continue
        lost, gained = (" ".join(c[2:] for c in change(name) if c[0] == sign) for sign in "-+")
        if (lost, gained) not in harmless:
            bad += 1
            print(f"{state}: {name}\n  - {lost}\n  + {gained}")
    caught = sum(state in CAUGHT for _, state in checked)
    print(f"{len(checked)} mutants of guards, {caught} caught, {len(checked) - caught - bad} harmless, {bad} survivors")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    raise SystemExit(main())
