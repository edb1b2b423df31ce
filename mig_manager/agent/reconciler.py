"""The whole life of a repartition, as one list of steps.

Every pass starts at the top and goes on until a step does not continue. Each step makes something true and is a no-op
where it is true already, so a crash needs no special path: the next pass finds out where things stand. What a crash in
the middle of a step leaves is said in the step's docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mig_manager.agent.context import Context
from mig_manager.agent.results import Continue, Done, StepResult
from mig_manager.agent.steps.apply import apply
from mig_manager.agent.steps.await_advertised import await_advertised
from mig_manager.agent.steps.begin import begin
from mig_manager.agent.steps.check_holders import check_holders
from mig_manager.agent.steps.cordon import cordon
from mig_manager.agent.steps.drain import drain
from mig_manager.agent.steps.finish_begun import finish_begun
from mig_manager.agent.steps.observe import observe
from mig_manager.agent.steps.pause_clients import pause_clients
from mig_manager.agent.steps.plan import plan
from mig_manager.agent.steps.refresh_device_files import refresh_device_files
from mig_manager.agent.steps.release import release
from mig_manager.agent.steps.resume_clients import resume_clients
from mig_manager.agent.steps.retract import retract
from mig_manager.agent.steps.settle import settle
from mig_manager.agent.steps.stand_down import stand_down
from mig_manager.agent.steps.take_up import take_up

Step = Callable[[Context], StepResult]

STEPS: tuple[Step, ...] = (
    observe,  # everything is read fresh
    finish_begun,  # an open record is finished, rolled back, or dropped if nothing was destroyed
    plan,  # what the desired layout takes is known
    retract,  # labels and annotations say nothing that is not true
    settle,  # a grant with nothing to do is acknowledged
    stand_down,  # where the work must not go on, nothing of ours is left
    take_up,  # the right to work is there, and written down; or the pass ends here
    cordon,  # no new pods
    drain,  # no pod holds what goes
    pause_clients,  # no GPU client is on the node
    check_holders,  # nobody uses what goes
    begin,  # the grant is read live once more
    apply,  # record, last look, modes, slices, read-back, record closed
    refresh_device_files,  # device nodes for the new slices
    resume_clients,  # the clients are back
    await_advertised,  # the kubelet lists exactly what is on the cards
    release,  # labels, then uncordoned, then Released
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Which step ended the pass, and how."""

    step: str
    result: StepResult


def reconcile(ctx: Context) -> Ending:
    """Run the steps until one does not continue. Errors of the ports come out as they are."""
    for step in STEPS:
        ctx.step = step.__name__
        result = step(ctx)
        if not isinstance(result, Continue):
            return Ending(ctx.step, result)
    return Ending(ctx.step, Done())
