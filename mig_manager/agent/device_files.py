"""Device files for new slices: the capability nodes that containers need, and the CDI spec that names them.

The driver makes ``/proc/driver/nvidia/capabilities/gpu<N>/mig/gi<G>[/ci<C>]/access`` for every instance; the device
node that belongs to it is made by ``nvidia-modprobe -f <that file>`` (NVIDIA MIG User Guide, "Device Nodes and
Capabilities"). A CDI spec is written anew by ``nvidia-ctk cdi generate`` (NVIDIA Container Toolkit). Both are the
driver root's own tools; where one is missing there is nothing to refresh with it.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path

_log = logging.getLogger(__name__)

CAPABILITIES = "proc/driver/nvidia/capabilities"
CDI_SPEC = "/var/run/cdi/nvidia.yaml"
_DIRECTORIES = ("usr/bin", "usr/sbin", "usr/local/nvidia/toolkit", "bin", "sbin")
TIMEOUT_S = 60.0


class DeviceFiles:
    """Refreshes device files below ``root``, the root of the driver's installation (``/`` on a plain host)."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def __call__(self) -> None:
        """Make what is missing. A tool that fails is logged: whether pods work is seen by what the kubelet offers."""
        modprobe = self._tool("nvidia-modprobe")
        if modprobe is not None:
            for access in sorted((self.root / CAPABILITIES).glob("gpu*/mig/**/access")):
                self._run([modprobe, "-f", f"/{access.relative_to(self.root)}"])
        toolkit = self._tool("nvidia-ctk")
        if toolkit is not None and (self.root / CDI_SPEC.lstrip("/")).exists():
            self._run([toolkit, "cdi", "generate", f"--output={CDI_SPEC}"])

    def _tool(self, name: str) -> str | None:
        return next((f"/{d}/{name}" for d in _DIRECTORIES if (self.root / d / name).exists()), None)

    def _run(self, command: Sequence[str]) -> None:
        full = list(command) if self.root == Path("/") else ["chroot", str(self.root), *command]
        try:
            done = subprocess.run(full, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - the tools named here
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("running %s: %s", command[0], error)
            return
        if done.returncode:
            _log.warning("running %s: exit code %d: %s", command[0], done.returncode, done.stderr.strip())
