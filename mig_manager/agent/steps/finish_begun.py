"""Step 2: what was begun is finished or taken back, whatever the grant says by now. Rule A1."""

from __future__ import annotations

from mig_manager.agent import acts
from mig_manager.agent.availability import half_done
from mig_manager.agent.context import Context, Verdict
from mig_manager.agent.live import pods_on, read_cards
from mig_manager.agent.means import means_for
from mig_manager.agent.results import CONTINUE, Continue, Refuse, StepResult, Wait
from mig_manager.gpu.apply import recover
from mig_manager.gpu.reset import RebootingError
from mig_manager.gpu.result import Outcome, Result

REBOOT_RETRY_S = 30.0


def finish_begun(ctx: Context) -> StepResult:
    """No record is open.

    Nothing destroyed yet: it is dropped. Everything done: it is closed. Else it is finished, or rolled back, behind a
    cordon and with the clients away; if that fails too it is closed and nothing is promised. Where a reboot is part of
    it, that is asked for again until another boot is here; one that did not help is never repeated.

    A crash in the middle leaves the record, and the next pass begins here again.
    """
    intent = ctx.record.intent
    if intent is None:
        return CONTINUE
    if ctx.driver_error is not None:
        return Refuse(ctx.driver_error.reason, f"an unfinished change waits for the driver: {ctx.driver_error}")
    if half_done(ctx.cards, ctx.record):
        if ctx.kubelet_error:
            return Refuse("KubeletUnreachable", ctx.kubelet_error)
        for act in (acts.cordon, acts.pause):
            result = act(ctx)
            if not isinstance(result, Continue):
                return result
        # Holders are looked at behind the cordon: a pod may have been bound before it was there.
        ctx.pods = pods_on(ctx.ports, ctx.settings.node)
    try:
        outcome = recover(ctx.ports.gpus, ctx.ports.journal, means_for(ctx))
    except RebootingError:
        return rebooting(ctx)
    ctx.record = ctx.ports.journal.read()
    read_cards(ctx)
    if outcome is not None:
        note_changes(ctx, outcome)
        ctx.verdict = verdict_of(outcome)
    return CONTINUE


def rebooting(ctx: Context) -> Wait:
    """The end of a pass that has asked for a reboot; the record is open."""
    ctx.record = ctx.ports.journal.read()
    return Wait("Rebooting", REBOOT_RETRY_S, "the node is empty and was asked to reboot")


def note_changes(ctx: Context, result: Result) -> None:
    """What was done to the cards, for the report; whoever looked at them before has not seen it."""
    ctx.draft.changes += result.calls
    if result.calls:
        ctx.memory.cut(ctx.node_now)


def verdict_of(result: Result) -> Verdict | None:
    """What a result means for the hold; ``None`` when the cards are as they should be, or as they were."""
    if result.outcome is Outcome.FAILED:
        return Verdict("Failed", result.reason, result.message)
    if result.outcome is Outcome.ROLLED_BACK:
        return Verdict("RolledBack", result.reason, result.message)
    return None
