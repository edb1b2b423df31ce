"""Rebooting this node, by a command that the administrator configured, and knowing one boot from the next.

The command may reboot at once, or only tell somebody who does (kured's sentinel file): either way the change stays open
in the journal, with the boot on which it began, and is finished by whoever runs on the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from mig_manager.agent.context import Context
from mig_manager.agent.live import pods_on
from mig_manager.agent.planning import goes_with_the_node
from mig_manager.geometry.state import Holder
from mig_manager.gpu.holders import HeldError
from mig_manager.gpu.port import GpuError
from mig_manager.gpu.reset import RebootingError
from mig_manager.gpu.tools import ToolError, run_tool

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""The kernel's own name for this boot, random(4): the same in every container of the machine."""

COMMAND_TIMEOUT_S = 60.0
PATIENCE = timedelta(hours=1)
"""For how long a reboot that was asked for may not happen; a drained node must not wait for ever."""

DOING = "rebooting the node"


def read_boot_id() -> str:
    """The id of this boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()


class RebootCommand:
    """A reboot by running a command, without a shell."""

    def __init__(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s

    def __call__(self) -> None:
        """Run it; GpuError, in the command's own words, when it fails."""
        try:
            run_tool(self._command, self._timeout_s)
        except ToolError as error:
            raise GpuError(DOING, str(error), error.code) from error


def reboot_for(ctx: Context) -> Callable[[], None] | None:
    """What asks for the reboot that a change takes; ``None`` where no way to reboot is configured."""
    reboot = ctx.ports.reboot
    if reboot is None:
        return None

    def ask() -> None:
        """Look once more that nobody is hurt, and ask. It is asked again in every pass, until the node goes down."""
        staying = [p for p in pods_on(ctx.ports, ctx.settings.node) if not goes_with_the_node(p)]
        if staying:
            raise HeldError(DOING, [Holder(pod.full_name, leaving=pod.leaving) for pod in staying])
        intent = ctx.ports.journal.read().intent
        if intent is not None and abs(ctx.now - datetime.fromisoformat(intent.created)) > PATIENCE:
            raise GpuError(DOING, "it was asked for an hour ago and has not happened; look at --reboot-command", 0)
        reboot()
        raise RebootingError

    return ask
