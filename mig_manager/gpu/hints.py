"""What a person can do about programs that are known to keep cards and slices in use.

Sources: NVIDIA MIG User Guide ("Enable MIG Mode": which agents to stop); NVIDIA Driver Persistence; NVIDIA
Multi-Process Service ("Stopping MPS"); NVIDIA DCGM issues 95 and 276; NVIDIA mig-parted issue 181.
"""

from __future__ import annotations

from mig_manager.geometry.state import Holder
from mig_manager.gpu.proc import User

_COMMAND_LENGTH = 15
"""Linux cuts names of programs to this length (proc(5), ``/proc/pid/comm``)."""

_PERSISTENCED = "nvidia-persistenced"
_DISPLAY = "a display server: stop it, or keep it off this card"

_HINTS = {
    _PERSISTENCED: "stop it for as long as the reset takes: systemctl stop nvidia-persistenced",
    "nv-hostengine": "DCGM's host engine: systemctl stop nvidia-dcgm, or add its pods to the list of GPU clients",
    "dcgm-exporter": "stop it, or add its pods to the list of GPU clients",
    "nvsm": "NVIDIA System Management: systemctl stop nvsm",
    "nvsm_core": "NVIDIA System Management: systemctl stop nvsm",
    "nv-fabricmanager": "systemctl stop nvidia-fabricmanager",
    "nvidia-cuda-mps-control": "the MPS daemon: echo quit | nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server": "the MPS daemon: echo quit | nvidia-cuda-mps-control",
    "Xorg": _DISPLAY,
    "Xwayland": _DISPLAY,
    "gnome-shell": _DISPLAY,
}
_BY_COMMAND = {name[:_COMMAND_LENGTH]: hint for name, hint in _HINTS.items()}

GHOST_HINT = (
    "nobody is to be seen there; restart DCGM and its exporter, which are known to keep slices open; "
    "a loaded kernel module nvidia_drm keeps cards open too"
)

WHOSE_HINT = "`ps -fp PID` on the node says whose it is; end it, or stop what starts it for as long as the change takes"
"""About a process that no pod has, and that is not known to be in the way."""


def holder_of(user: User) -> Holder:
    """A process as a holder, with what to do about it."""
    return Holder(str(user), hint=_BY_COMMAND.get(user.command, ""))


def minds_resets_only(user: User) -> bool:
    """Whether the program keeps a card from being reset, and from nothing else.

    ``nvidia-persistenced`` holds the card open so that the driver keeps its state; modes that become current without a
    reset, and slices, change under it.
    """
    return user.command == _PERSISTENCED[:_COMMAND_LENGTH]
