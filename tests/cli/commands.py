"""Running the program as a user would, in this process and in its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mig_manager.cli.main import program


def run(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
    """Run a command in this process; ``result.stdout`` and ``result.stderr`` are apart."""
    result = CliRunner(env={"COLUMNS": "100", **(env or {})}).invoke(program, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeed(*arguments: str, stdin: str | None = None) -> str:
    """What a command prints that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert (0, "") == (result.exit_code, result.stderr.replace(NOTE, ""))
    return result.stdout


def document(*arguments: str) -> Any:  # noqa: ANN401 - JSON is anything
    """What a command prints as JSON."""
    result = run(*arguments, "-o", "json")
    return json.loads(result.stdout)


def spawn(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - subprocess.run's
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "mig_manager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def create(directory: Path, *gpus: str, mig: bool = True) -> str:
    """A simulated machine in a file."""
    path = str(directory / "box.sim")
    options = [option for gpu in gpus for option in ("--gpu", gpu)]
    succeed("sim", "create", path, *options, *(["--mig"] if mig else []))
    return path


NOTE = "note: these GPUs exist on paper only: empty, with MIG enabled\n"
