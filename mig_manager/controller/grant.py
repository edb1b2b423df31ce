"""Whom to grant what, whom to revoke: the controller's rules of the grant protocol, as one pure function.

A slot is the right to take one node out of service, once; at most ``maxUnavailable`` of them exist per MIGConfig. A
grant with ``slot`` gives it to a node. A grant without lets the agent work only while the node is unavailable anyway,
and costs nothing. A node holds a slot while it is Held, and before that while its unrevoked grant with a slot is not
taken up. Nothing else counts: neither phases, nor conditions, nor memory. The agent answers a grant in
``status.grant``, Released comes last and ends the slot.

What makes this safe beside the counting: every write carries the resourceVersion of the copy that was decided on, the
agent takes a grant up with the resourceVersion of its own live read, and compares ``by`` with the Lease before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from mig_manager.api.migconfig import MIGConfig
from mig_manager.api.mignode import Desired, Grant
from mig_manager.controller.records import GrantRecord, MIGNodeRecord
from mig_manager.controller.views import PATIENCE_S, RANKS, View


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a MIGNode's spec: everything in it goes through together, or nothing does.

    ``desired`` replaces ``spec.desired`` and ``clear`` removes it; ``grant`` replaces ``spec.grant`` and ``revoke``
    marks it revoked. ``why`` is for logs and Events.
    """

    name: str
    why: str
    desired: Desired | None = None
    clear: bool = False
    grant: Grant | None = None
    revoke: bool = False

    @property
    def takes_slot(self) -> bool:
        """Whether the node holds a slot afterwards that it may not have held before."""
        return self.grant is not None and self.grant.slot


@dataclass(frozen=True, slots=True)
class Decision:
    """The writes to be made, and after how many seconds there may be more to decide although nothing has happened."""

    writes: tuple[Write, ...] = ()
    wake_s: float | None = None


@dataclass(slots=True)
class _Turn:
    """What one decision collects: writes, the nodes that wait for a slot, and when to come again."""

    config: MIGConfig
    me: str
    now: datetime
    writes: list[Write] = field(default_factory=list)
    waiting: list[View] = field(default_factory=list)
    wake_s: list[float] = field(default_factory=list)


def decide(views: Sequence[View], config: MIGConfig, me: str, now: datetime, slots: int) -> Decision:
    """The writes for the nodes of one pool.

    ``me`` is the holderIdentity under which this process has the Lease. ``slots`` is how many slots the MIGConfig has
    given away in all, to nodes that left the pool as well.
    """
    turn = _Turn(config, me, now)
    for view in views:
        if not view.record.deleting and not view.record.unreadable:
            _consider(turn, view)
    # Only the slots are needed for safety; that outages which are not ours take from the budget too is courtesy.
    outages = sum(view.unavailable and not view.record.holds_slot for view in views)
    free = config.disruption.budget(len(views)) - slots - outages
    turn.waiting.sort(key=_order)
    for view in turn.waiting[: max(0, free)]:
        turn.writes.append(_granted(turn, view, slot=True, why="its turn has come"))
    return Decision(tuple(turn.writes), min(turn.wake_s, default=None))


def _consider(turn: _Turn, view: View) -> None:
    """The rules for one node, in the order of precedence; at most one write."""
    record, config = view.record, turn.config
    wanted = view.wish if differs(view) else None
    stopped = config.paused or bool(view.wish.error)
    if stopped and record.to_be_stopped:
        # Pause: what is not Released is revoked; grants that were carried out stand, so that repairs go on.
        why = "the MIGConfig is paused" if config.paused else "its profile is unknown"
        turn.writes.append(Write(record.name, why, desired=wanted, revoke=True))
    elif wanted is not None:
        # The grant follows when the agent has planned this: plan before disruption.
        turn.writes.append(Write(record.name, f"profile {wanted.profile}", desired=wanted))
    elif not stopped:
        _proceed(turn, view)


def _proceed(turn: _Turn, view: View) -> None:
    """The rules for a node whose wish is written and whose pool is not paused."""
    record, grant = view.record, view.record.grant
    if grant is not None and (why := _forfeited(turn, view, grant)):
        turn.writes.append(Write(record.name, why, revoke=True))
        return
    if not view.planned or _is_settled(turn, view):
        return
    obstacle = view.obstacle(turn.config)
    if obstacle is not None:
        if record.holds_slot and grant is not None and not grant.revoked:
            # Nobody is disturbed for a layout that nobody wants any more.
            turn.writes.append(Write(record.name, obstacle.reason, revoke=True))
    elif record.holds_slot:
        turn.writes.append(_granted(turn, view, slot=True, why="the layout changed"))
    elif view.unavailable or view.in_place:
        turn.writes.append(_granted(turn, view, slot=False, why="it takes nobody out"))
    elif record.released:
        _wait_for_slot(turn, view)


def _forfeited(turn: _Turn, view: View, grant: GrantRecord) -> str:
    """Why a grant has to be revoked before anything else can be decided; empty when it has not.

    A node that moved here from another pool gives that pool's slot back first: it was not counted here.
    """
    record = view.record
    if grant.revoked or not record.holds_slot:
        return ""
    if grant.config != turn.config.name:
        return f"the node has left {grant.config or 'its pool'}"
    return "" if record.held or not grant.slot else _idle_slot(turn, view, grant)


def _idle_slot(turn: _Turn, view: View, grant: GrantRecord) -> str:
    """Why a slot that was not taken up goes to somebody else; empty while the agent may still use it."""
    if grant.by != turn.me:
        return "a former leader gave it"
    if (obstacle := view.obstacle(turn.config)) is not None:
        return f"it is of no use there now: {obstacle.reason}"
    if view.asked_s >= PATIENCE_S:
        return "the agent did not take it up"
    turn.wake_s.append(PATIENCE_S - view.asked_s)
    return ""


def _is_settled(turn: _Turn, view: View) -> bool:
    """Whether the present grant already says what is to be done; a slotless one may still have to wait for a slot."""
    record, grant = view.record, view.record.grant
    if grant is None:
        return False
    if not _is_current(view, turn, grant):
        # Another pool's slot comes back when the agent has stood down. Our own pool's Held node keeps its slot under
        # the next grant, even if the present one was revoked, and the agent keeps cordon and pauses.
        return record.held and grant.config != turn.config.name
    if not record.taken_up:
        if not grant.slot and record.released and not view.unavailable:
            _upgrade(turn, view)
        return True
    if not record.released or view.in_place:
        return True
    rest = view.rest_s(turn.now)
    if rest:
        turn.wake_s.append(rest)
    return rest > 0


def _upgrade(turn: _Turn, view: View) -> None:
    """Replace a slotless grant that the agent cannot take up any more: the node came back, and neither side would move.

    Where nothing is to be done the agent only has to acknowledge. If it does not, it sees work that the plan does not
    show, and needs a slot like everybody else.
    """
    if view.in_place and view.asked_s < PATIENCE_S:
        turn.wake_s.append(PATIENCE_S - view.asked_s)
    elif view.obstacle(turn.config) is None:
        _wait_for_slot(turn, view)


def _is_current(view: View, turn: _Turn, grant: GrantRecord) -> bool:
    """Whether a grant is what would be given now: this pool's, for this layout, on these terms, and not revoked.

    The terms of a drain matter only to a grant that has not been carried out: a standing one drains nobody, and an
    attempt that was given up may succeed on others. A former leader's slot cannot be taken up any more, so it is not
    current either.
    """
    config, record = turn.config, view.record
    terms = config.disruption
    if grant.revoked or (grant.config, grant.hash) != (config.name, view.wish.hash):
        return False
    if grant.slot and not record.taken_up and grant.by != turn.me:
        return False
    if (grant.max_impact, grant.rollback) != (terms.max_impact, config.rollback):
        return False
    return grant.drain == terms.drain or (record.taken_up and record.carried_out)


def differs(view: View) -> bool:
    """Whether ``spec.desired`` has to be written.

    The MIGConfig's generation alone is no reason: pausing a pool of 5,000 nodes would write all of them. That it is
    paused is written where somebody may wonder why nothing happens, and taken back everywhere.
    """
    record, wish = view.record, view.wish
    written = (record.config, record.profile, record.hash, record.error, record.drain, record.max_impact)
    if written != (wish.config, wish.profile, wish.hash, wish.error, wish.drain, wish.max_impact):
        return True
    if wish.paused == record.paused:
        return False
    return not wish.paused or (view.planned and not view.in_place)


def _wait_for_slot(turn: _Turn, view: View) -> None:
    """Let the node take part in the choice, if its agent can be expected to use the slot."""
    record = view.record
    # A slot that had to be revoked for want of an answer is not given again before there is one.
    if not view.agent and not (_lapsed(record) and record.observed_generation < record.generation):
        turn.waiting.append(view)


def _order(view: View) -> tuple[int, bool, str]:
    """Nodes where nobody is evicted come first, and among equals the name decides.

    Behind them all come those that let a slot lapse (something there is in the way that no drain can move), the one
    with the fewest grants first: else one such node would have every turn.
    """
    grant, plan = view.record.grant, view.record.plan
    lapsed = grant.id if grant is not None and _lapsed(view.record) else 0
    impact = plan.impact if plan else None
    return lapsed, impact is None or RANKS[impact] > RANKS["FreeSlices"], view.name


def _lapsed(record: MIGNodeRecord) -> bool:
    """Whether the node's last grant gave a slot that was revoked before the agent took it up."""
    grant = record.grant
    return grant is not None and grant.revoked and grant.slot and not record.taken_up


def _granted(turn: _Turn, view: View, *, slot: bool, why: str) -> Write:
    """The write that replaces the node's grant by the next one."""
    wish, config, former = view.wish, turn.config, view.record.grant
    if wish.layout is None:
        raise ValueError(f"granting Node {view.name}: there is no layout")
    grant = Grant(
        id=1 if former is None else former.id + 1,
        by=turn.me,
        hash=wish.hash,
        layout=replace(wish.layout, name=wish.profile),
        slot=slot,
        strategy=wish.strategy,
        max_impact=config.disruption.max_impact,
        drain=config.disruption.drain,
        rollback=config.rollback,
        config=config.name,
    )
    return Write(view.name, why, grant=grant)
