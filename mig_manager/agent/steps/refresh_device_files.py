"""Step 14: the device files of the new slices exist."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.device_files import DeviceFilesError
from mig_manager.agent.results import CONTINUE, StepResult


def refresh_device_files(ctx: Context) -> StepResult:
    """Capability device nodes and CDI specs exist for the slices on the cards, before the clients come back.

    Asked for while the clients are still away: a crash in between leaves the pause, and the next pass asks again. A
    tool that fails is said in an Event and keeps nobody waiting: whether the slices can be had is seen by what the
    kubelet offers.
    """
    if ctx.pause is not None:
        try:
            ctx.ports.device_files()
        except DeviceFilesError as error:
            ctx.draft.remarks.append(("DeviceFilesFailed", str(error)))
    return CONTINUE
