"""What README and CONTRIBUTING say is true: every command block runs, and what they quote is what is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory like a clone in which ``make setup`` has nothing left to do."""
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    environment = Path(sys.prefix)
    (tmp_path / ".venv").mkdir()
    for entry in environment.iterdir():
        if entry.name != ".ready":
            (tmp_path / ".venv" / entry.name).symlink_to(entry)
    (tmp_path / ".venv" / ".ready").touch()
    return tmp_path


def test_every_command_block_runs(clone: Path) -> None:
    """In order, in one directory, stopping at the first error; quoted output is in what the block before printed."""
    printed = ""
    for kind, text in BLOCKS:
        if kind == "text":
            assert text in printed
            continue
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", text],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
            cwd=clone,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        assert 0 == done.returncode, f"{text}\n{done.stdout}"
        printed = done.stdout


def test_there_is_something_to_run() -> None:
    """The blocks were found: README begins with making a simulated machine, planning, applying and looking at it."""
    first = next(text for kind, text in BLOCKS if kind == "sh")

    assert [
        "make setup",
        *(f"mig-manager {verb}" for verb in ("sim create", "plan", "apply", "inspect")),
    ] == re.findall(r"make setup|mig-manager (?:sim )?\w+", first)


DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    """Every relative link and picture is a file of the repository."""
    path = ROOT / document
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))

    assert [] == [link for link in links if not (path.parent / link).exists()]


def test_targets_exist() -> None:
    """Every make target that README and CONTRIBUTING name is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)`", README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))

    assert set() == {t for t in named - {"demo"} if not re.search(rf"^{t}:", makefile, re.MULTILINE)}


def test_example_of_one_test() -> None:
    """The command by which CONTRIBUTING runs one test finds one, with the option that repeats an order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^One test: `\.venv/bin/pytest (.*?)`", page, re.MULTILINE)
    (seed,) = re.findall(r"`(--\S+=1234)` repeats it", page.replace("\n", " "))
    pytest_here = [sys.executable, "-m", "pytest", "--collect-only", "--quiet"]
    done = subprocess.run([*pytest_here, *command.split(), seed], capture_output=True, text=True, check=False, cwd=ROOT)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert 1 == done.stdout.count("::")
