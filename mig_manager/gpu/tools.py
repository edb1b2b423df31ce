"""Running tools of the host, such as nvidia-smi: without a shell, for a bounded time, and told in their own words."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path("/")


class ToolError(Exception):
    """A tool failed; the message names it and says how.

    ``said`` is what it said, on one line, ``code`` its exit code; empty and 0 where it did not end by itself.
    """

    def __init__(self, text: str, said: str = "", code: int = 0) -> None:
        self.said = said
        self.code = code
        super().__init__(text)


def run_tool(command: Sequence[str], timeout_s: float, root: Path = ROOT) -> None:
    """Run a command to its end, as if ``root`` were the root of all files; ToolError when it fails."""
    name, full = command[0], command if root == ROOT else ["chroot", str(root), *command]
    try:
        done = subprocess.run(  # noqa: S603 - the tools of the driver, or what the administrator configured
            full, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{name} did not finish within {timeout_s:g} s") from error
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split()) or "said nothing"
        raise ToolError(f"{name} failed with exit code {done.returncode}: {said}", said, done.returncode)
