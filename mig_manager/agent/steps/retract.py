"""Step 4: what the node says about itself is true, and no record of a cordon claims what a person did."""

from __future__ import annotations

from typing import Any

from mig_manager.agent import acts, labels
from mig_manager.agent.context import Context
from mig_manager.agent.exposure import exposed, wanted_labels
from mig_manager.agent.identity import cordon_note
from mig_manager.agent.names import APPLIED_PROFILE, CORDONED, STATE
from mig_manager.agent.results import CONTINUE, StepResult


def retract(ctx: Context) -> StepResult:
    """Labels that promise slices that are not there are gone; our annotation without our cordon is gone (rule A8).

    Our cordon without our annotation has it back: else it would count as a person's, and stay for ever.

    On a node that is held labels are only taken back: what is exposed afterwards is said when the work is done. No
    cordon is made here: slices that are missing without a grant are no reason to touch the node (rule A10). One patch,
    so a crash leaves it undone or done.
    """
    present = ctx.node["metadata"].get("labels") or {}
    if ctx.hold or ctx.ours:
        true = labels.slice_labels(exposed(ctx), ctx.strategy)
        promised = labels.promises(present)
        change: dict[str, str | None] = {
            key: None for key, value in promised.items() if key != APPLIED_PROFILE and true.get(key) != value
        }
    else:
        state = present.get(STATE, "pending")
        change = labels.change(present, wanted_labels(ctx, state))
    metadata: dict[str, Any] = {}
    if change:
        metadata["labels"] = change
    if ctx.cordon.stale or ctx.cordon.unmarked:
        note = cordon_note(ctx.hold.id if ctx.hold else 0, ctx.now)
        metadata["annotations"] = {CORDONED: note if ctx.cordon.unmarked else None}
        metadata["resourceVersion"] = ctx.node["metadata"]["resourceVersion"]
    if metadata:
        acts.patch_node(ctx, {"metadata": metadata})
    return CONTINUE
