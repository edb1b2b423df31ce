"""One agent: a pass over the steps, and the report about it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from mig_manager.agent import acts
from mig_manager.agent.context import Context, Memory, Ports, Settings
from mig_manager.agent.drift import Look
from mig_manager.agent.events import announce
from mig_manager.agent.mailbox import News
from mig_manager.agent.names import STATE
from mig_manager.agent.reconciler import Ending, reconcile
from mig_manager.agent.report import NOT_EXPOSED, NOT_THERE, write_failure, write_status
from mig_manager.agent.results import AT_ONCE_S, Done, Refuse, StepResult, Wait
from mig_manager.gpu.journal import JournalError
from mig_manager.gpu.port import GpuError
from mig_manager.kube.errors import ClusterError, ConflictError, ForbiddenError, InvalidError, TooManyRequestsError
from mig_manager.kube.podresources.client import PodResourcesError

_log = logging.getLogger(__name__)

API_RETRY_S = 5.0


@dataclass
class Agent:
    """The agent of one node. ``run_pass`` is called from one thread only."""

    ports: Ports
    settings: Settings
    memory: Memory = field(default_factory=Memory)
    seen: Look = field(default_factory=Look)
    """What the last pass saw of this machine."""
    read: News | None = None
    """Which MIGNode the last pass read."""

    def run_pass(self) -> Ending:
        """One pass from the top, and its report. What the ports raise is an ending too: the next pass tries anew."""
        ctx = Context(self.ports, self.settings, self.memory, node={}, pods=())
        try:
            ending = self._reconcile(ctx)
        except (ClusterError, GpuError, JournalError, PodResourcesError) as error:
            _log.warning("%s: %s", ctx.step, error)
            ending = Ending(ctx.step, _ending_of(error))
            if isinstance(error, ClusterError) and not isinstance(error, ForbiddenError | InvalidError):
                # A write may have come through: what was found is reported by a pass that knows.
                _say_why(ctx, ending, error)
                return ending
        self.seen = look_of(ctx)
        try:
            self._report(ctx, ending)
        except ClusterError as error:
            _log.warning("reporting: %s", error)
            return Ending("report", _ending_of(error))
        return ending

    def _reconcile(self, ctx: Context) -> Ending:
        self.read = None
        try:
            return reconcile(ctx)
        finally:
            self.read = News.of(ctx.raw_mignode) if ctx.raw_mignode is not None else None

    def _report(self, ctx: Context, ending: Ending) -> None:
        if not ctx.node:
            return
        labels = ctx.node["metadata"].get("labels") or {}
        state = state_of(ctx, ending)
        written = write_status(ctx, ending)
        if written is not None:
            announce(ctx, ctx.reported, written)
        # Last, so that a webhook that keeps the Node from being written does not keep the status back.
        if ctx.desired is not None and STATE in labels and labels[STATE] != state:
            acts.patch_node(ctx, {"metadata": {"labels": {STATE: state}}})


def _say_why(ctx: Context, ending: Ending, error: ClusterError) -> None:
    """Say on the MIGNode what this pass failed at: it may go on failing while other requests come through.

    So it is where a webhook of the cluster is down. Conflicts are over at once. Before everything was read, and where
    this does not come through either, the log says it alone.
    """
    if not ctx.observed or isinstance(error, ConflictError):
        return
    try:
        write_failure(ctx, ending)
    except ClusterError as unsaid:
        _log.warning("reporting: %s", unsaid)


def state_of(ctx: Context, ending: Ending) -> str:
    """The node in one word, for its label."""
    if ctx.hold is not None or ctx.ours:
        return acts.UPDATING
    if isinstance(ending.result, Done):
        return "ready"
    reason = getattr(ending.result, "reason", "")
    if reason in NOT_EXPOSED + NOT_THERE:
        return "degraded"
    planned, grant = ctx.draft.plan, ctx.draft.grant or ctx.status.grant
    if ctx.draft.obstacle is not None or (planned is not None and planned.reason is not None):
        return "blocked"
    if grant is not None and grant.result in ("Failed", "RolledBack"):
        return "failed"
    given_up = grant is not None and grant.result == "Aborted" and grant.not_before is not None
    return "blocked" if isinstance(ending.result, Refuse) or given_up else "pending"


def look_of(ctx: Context) -> Look:
    """What a pass saw, in the form in which later looks are compared with it."""
    driver = str(ctx.driver_error or "")
    if ctx.kubelet_error:
        return Look(ctx.cards, driver, kubelet_answers=False)
    return Look(ctx.cards, driver, tuple(sorted(ctx.allocatable)))


def _ending_of(error: ClusterError | GpuError | JournalError | PodResourcesError) -> StepResult:
    if isinstance(error, ConflictError):
        return Wait("Conflict", AT_ONCE_S, str(error))
    if isinstance(error, TooManyRequestsError):
        return Wait(error.reason, error.retry_after_s or API_RETRY_S, str(error))
    if isinstance(error, ClusterError):
        return Refuse(error.reason, str(error))
    if isinstance(error, PodResourcesError):
        return Wait("KubeletUnreachable", API_RETRY_S, str(error))
    return Refuse("JournalError" if isinstance(error, JournalError) else error.reason, str(error))
