"""Device files for new slices: the capability nodes that containers need, and the CDI specs that name them.

The driver makes ``/proc/driver/nvidia/capabilities/gpu<N>/mig/gi<G>[/ci<C>]/access`` for every instance; the device
node that belongs to it is made by ``nvidia-modprobe -f <that file>`` (NVIDIA MIG User Guide, "Device Nodes and
Capabilities"), and where that is missing by nvidia-smi, which makes what it needs when it runs as root. A CDI spec is
written anew by ``nvidia-ctk cdi generate`` (NVIDIA Container Toolkit). They are the driver root's own tools; where one
is missing there is nothing to refresh with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mig_manager.gpu.tools import ROOT, ToolError, run_tool

CAPABILITIES = "proc/driver/nvidia/capabilities"
CDI_SPECS = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")
"""Where the toolkit's documentation puts the spec, and where its nvidia-cdi-refresh service does."""

_DIRECTORIES = ("usr/bin", "usr/sbin", "usr/local/nvidia/toolkit", "bin", "sbin")
TIMEOUT_S = 60.0


class DeviceFilesError(Exception):
    """Some tools failed; the message names each with its own words."""


class DeviceFiles:
    """Refreshes device files below ``root``, the root of the driver's installation (``/`` on a plain host)."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    def __call__(self) -> None:
        """Make what is missing, as far as possible; DeviceFilesError in the end when a tool failed."""
        problems = [problem for command in self._commands() if (problem := self._run(command))]
        if problems:
            raise DeviceFilesError("; ".join(problems))

    def _commands(self) -> list[list[str]]:
        found: list[list[str]] = []
        modprobe, smi = self._tool("nvidia-modprobe"), self._tool("nvidia-smi")
        if modprobe is not None:
            accesses = sorted((self.root / CAPABILITIES).glob("gpu*/mig/**/access"))
            found += [[modprobe, "-f", f"/{access.relative_to(self.root)}"] for access in accesses]
        elif smi is not None:
            found.append([smi, "-L"])
        toolkit = self._tool("nvidia-ctk")
        if toolkit is not None:
            specs = [spec for spec in CDI_SPECS if (self.root / spec.lstrip("/")).exists()]
            found += [[toolkit, "cdi", "generate", f"--output={spec}"] for spec in specs]
        return found

    def _tool(self, name: str) -> str | None:
        return next((f"/{d}/{name}" for d in _DIRECTORIES if (self.root / d / name).exists()), None)

    def _run(self, command: Sequence[str]) -> str:
        """Run it; what went wrong, empty when nothing did."""
        try:
            run_tool(command, TIMEOUT_S, self.root)
        except ToolError as error:
            return str(error)
        return ""
