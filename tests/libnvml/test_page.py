"""The commands of docs/simulated-nvml.md do what the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from mig_manager.sim.model.machine import Machine

PAGE = (Path(__file__).parents[2] / "docs" / "simulated-nvml.md").read_text(encoding="utf-8")


def shell(script: str, directory: Path) -> str:
    """What a script prints that must not fail, with the project's programs on PATH."""
    programs = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "LD_LIBRARY_PATH": ""}
    return subprocess.run(
        ["/bin/bash", "-euc", script], cwd=directory, env=env, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def test_the_first_steps(library: Path, tmp_path: Path) -> None:
    """Each command prints what stands below it."""
    assert library.exists()
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = block.splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    expected = [line for line in lines if not line.startswith("$ ")]

    printed = shell("\n".join(commands), tmp_path).splitlines()

    assert expected == printed[-len(expected) :]


def test_the_example_for_tests(library: Path, tmp_path: Path) -> None:
    """It runs, and leaves what its comments say; the program in the middle is one of ours."""
    assert library.exists()
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    program = "python -c 'import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())'"
    assert "go test ./..." in block

    printed = shell(block.replace("go test ./...", program), tmp_path)

    machine = Machine.open(tmp_path / "box.sim")
    assert "\n1\n" in printed
    assert "H100-SXM5-80GB" == json.loads(printed[printed.rindex("\n{") :])["gpus"][0]["model"]
    assert [4711] == [client.pid for client in machine.card(0).clients]
    assert ["nvmlDeviceCreateGpuInstance"] == [fault.function for fault in machine.read().faults]
