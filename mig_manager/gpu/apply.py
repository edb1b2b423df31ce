"""Applying a plan to the cards of this machine so that it survives being killed at any instruction.

1. An open intent of an earlier run is finished first, or rolled back (``recover``).
2. The cards are read fresh. What would go beyond the plan, or is used by anybody, is a refusal; nothing was changed.
3. The intent (where to, where from) is on disk before the first destructive call.
4. The changes are made, holders looked at right before each destroy, and the cards are read back. Where that takes a
   reboot of the machine, the intent stays open over it and names the boot on which that was asked for.
5. On any error everything goes back to where it came from.
6. The intent is closed and the last good layout set in one write.

A process that is killed leaves the intent; the next run starts with step 1. Callers hold the host lock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from mig_manager.geometry.state import Card
from mig_manager.gpu.changes import Changes
from mig_manager.gpu.guards import objection
from mig_manager.gpu.holders import FindHolders, HeldError, process_holders
from mig_manager.gpu.journal import Intent, Journal, Stuck, Targets
from mig_manager.gpu.parts import Event, UnplannedError, parts_of
from mig_manager.gpu.port import GpuError, Gpus, GpuSession
from mig_manager.gpu.reset import PendingError, Reset
from mig_manager.gpu.result import Outcome, Result, holders_in, reason_of
from mig_manager.planner.plan import Impact, Plan
from mig_manager.planner.target import CardTarget, difference, target_of


def _silent(_: Event) -> None:
    """Report progress to nobody."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done: the cards concerned as they are now, and what each shall look like; both by UUID."""

    cards: Mapping[str, Card]
    targets: Targets

    @property
    def origin(self) -> Targets:
        """Where a failure goes back to."""
        return {gpu_uuid: target_of(card) for gpu_uuid, card in self.cards.items()}


@dataclass(frozen=True)
class Means:
    """What applying works with, apart from the cards and the journal.

    ``holders`` finds who uses what; ``reset`` resets cards whose mode stays pending (without one that is an error);
    ``progress`` hears of every changing call before it is made. Unless it ``goes_back``, a change that fails is left as
    it is, for somebody to look at. ``reboot`` asks for a reboot of the machine, where a plan takes one, and does not
    come back from it, or raises RebootingError; ``boot_id`` is the present boot, as far as it is known.
    """

    holders: FindHolders = process_holders
    reset: Reset | None = None
    progress: Callable[[Event], None] = _silent
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], str] = _now
    goes_back: bool = True
    reboot: Callable[[], None] | None = None
    boot_id: str = ""

    def changes(self, gpus: Gpus, intent: Intent, journal: Journal) -> Changes:
        """Changes that may destroy what the intent names; by a reboot only if the intent says so."""
        reboot = self.reboot
        expendable = parts_of(intent.to.values()) | parts_of(intent.origin.values())
        return Changes(
            gpus,
            self.holders,
            self.progress,
            self.sleep,
            self.reset,
            expendable,
            reboot=partial(_ask, reboot, journal, replace(intent, boot_id=self.boot_id))
            if intent.reboot and reboot is not None
            else None,
            rebooted=self.rebooted(intent),
        )

    def rebooted(self, intent: Intent) -> bool:
        """Whether the reboot that is part of the intent has been since it was asked for."""
        return intent.boot_id not in ("", self.boot_id)


DEFAULT_MEANS = Means()


def apply(  # noqa: PLR0913 - the last two are keywords of the agent's own
    gpus: Gpus,
    plan: Plan,
    journal: Journal,
    means: Means = DEFAULT_MEANS,
    *,
    intent_id: str = "",
    last_look: Callable[[], str] = str,
) -> Result:
    """Make the cards what ``plan`` says, or leave them as they are.

    ``intent_id`` names in the journal what ordered this (the agent's grant). ``last_look`` is called once the intent
    is on disk and before anything is changed; if it gives a reason, the intent is dropped and nothing happens.

    GpuError when the cards cannot be read to begin with, JournalError when the journal cannot be read or written;
    either way nothing was changed by this call that the journal does not know.
    """
    if plan.reason is not None:
        return Result(Outcome.REFUSED, plan.reason.reason, str(plan.reason))
    healed = recover(gpus, journal, means)
    with gpus.session() as session:
        work = _work(session, plan, means)
    if isinstance(work, Result):
        result = work
    else:
        reboot = plan.impact is Impact.REBOOT_NODE
        intent = Intent(intent_id or uuid.uuid4().hex, means.now(), work.targets, work.origin, reboot)
        journal.begin(intent)
        reason = last_look()
        if reason:
            journal.drop()
            cards = tuple(work.cards.values())
            result = Result(Outcome.REFUSED, reason, f"applying the plan: {reason}", cards=cards)
        else:
            result = _go(gpus, journal, means, intent, untouched=True)
    if result.ok:
        _remember(journal, _wanted(plan))
    return _after(healed, result)


def recover(gpus: Gpus, journal: Journal, means: Means = DEFAULT_MEANS) -> Result | None:
    """Finish an open intent, or roll it back; ``None`` when there is none.

    Nothing was destroyed yet: the intent is dropped. Everything is done: it is closed. In between it is finished, or
    rolled back when that fails. Cards that have vanished are named in the result and do not keep the others from
    being healed.

    GpuError when the cards cannot be read at all; the intent stays open.
    """
    record = journal.read()
    intent = record.intent
    if intent is None:
        return None
    with gpus.session() as session:
        found = {card.uuid: card for card in session.cards() if card.uuid in intent.to}
    to = {u: t for u, t in intent.to.items() if u in found}
    origin = {u: t for u, t in intent.origin.items() if u in found}
    if all(difference(found[u], t).empty for u, t in origin.items()):
        result = _unchanged(journal, means, intent, found)
    else:
        result = _go(gpus, journal, means, replace(intent, to=to, origin=origin), untouched=False)
    vanished = sorted(set(intent.to) - set(found))
    if vanished:
        message = (
            f"finishing intent {intent.id}: GPU {', '.join(vanished)} is gone; {result.message or 'others are well'}"
        )
        return replace(result, reason=result.reason or "GpuGone", message=message)
    return result


def _ask(reboot: Callable[[], None], journal: Journal, intent: Intent) -> None:
    """Ask for a reboot, and have the journal say first on which boot that was."""
    journal.begin(intent)
    reboot()


def _unchanged(journal: Journal, means: Means, intent: Intent, found: Mapping[str, Card]) -> Result:
    """Drop an intent by which nothing was changed; if it had its reboot, that was in vain for the cards still there."""
    cards = tuple(found.values())
    errors: list[GpuError] = []
    waiting = [card for card in cards if bool(card.mig_current) is not intent.to[card.uuid].mig]
    if waiting and means.rebooted(intent):
        labels = ", ".join(card.label for card in waiting)
        text = "a reboot changed nothing"
        errors = [PendingError(f"changing the MIG mode of {labels}", text, "reboot", [c.uuid for c in waiting])]
    journal.drop(_stuck(errors, means.boot_id))
    if errors:
        return Result(Outcome.ROLLED_BACK, reason_of(errors), str(errors[0]), cards=cards)
    return Result(Outcome.NOTHING_TO_DO, cards=cards)


def _work(session: GpuSession, plan: Plan, means: Means) -> _Work | Result:
    """The look before anything is begun: what the plan takes on the cards as they are now, or the end of it."""
    found = {card.uuid: card for card in session.cards()}
    gone = [p.card for p in plan.cards if p.target is not None and p.card.uuid not in found]
    if gone:
        message = f"opening {gone[0].label}: GPU {gone[0].uuid} is gone; plan again"
        return Result(Outcome.REFUSED, "GpuGone", message)
    work = _concerned(plan, found)
    if all(difference(work.cards[u], t).empty for u, t in work.targets.items()):
        return Result(Outcome.NOTHING_TO_DO, cards=tuple(found[u] for u in _wanted(plan)))
    error = objection(plan, work.cards, work.targets, means.holders(session, tuple(work.cards)))
    return work if error is None else replace(_refused(error), cards=tuple(work.cards.values()))


def _after(healed: Result | None, result: Result) -> Result:
    """The result, with the calls by which an earlier run was healed first."""
    if healed is None or not healed.calls:
        return result
    outcome = Outcome.APPLIED if result.outcome is Outcome.NOTHING_TO_DO else result.outcome
    return replace(result, outcome=outcome, calls=(*healed.calls, *result.calls))


def _go(gpus: Gpus, journal: Journal, means: Means, intent: Intent, *, untouched: bool) -> Result:
    """From an intent on disk to a closed one; ``untouched`` says that the cards are still as they were before it."""
    changes = means.changes(gpus, intent, journal)
    last_good = journal.read().last_good
    errors = changes.reach(intent.to)
    if untouched and errors and not changes.calls and isinstance(errors[0], HeldError | UnplannedError):
        journal.drop()  # the very first call was refused before it was made
        return _refused(errors[0])
    if not errors:
        journal.close({**last_good, **intent.to})
        return Result(Outcome.APPLIED, calls=tuple(changes.calls), cards=tuple(changes.cards.values()))
    why, reason, stuck = "; ".join(map(str, errors)), reason_of(errors), _stuck(errors, means.boot_id)
    if (changes.calls or not untouched) and not means.goes_back:
        message = f"{why}; the cards stay as they are, because going back was not wanted"
        journal.close({}, failed=message, stuck=stuck)
        calls, cards = tuple(changes.calls), tuple(changes.cards.values())
        return Result(Outcome.FAILED, reason, message, holders_in(errors), calls, cards)
    rollback = changes.reach(intent.origin, all_cards=True)
    calls, cards = tuple(changes.calls), tuple(changes.cards.values())
    if rollback:
        message = f"{why}; going back failed too: {'; '.join(map(str, rollback))}"
        journal.close({}, failed=message, stuck=stuck)
        return Result(Outcome.FAILED, "RollbackFailed", message, holders_in([*errors, *rollback]), calls, cards)
    journal.drop(stuck)
    return Result(Outcome.ROLLED_BACK, reason, why, holders_in(errors), calls, cards)


def _stuck(errors: Sequence[GpuError], boot_id: str) -> Stuck | None:
    """What was learnt about modes that do not become current, where it is known on which boot that is so."""
    pending = [error for error in errors if isinstance(error, PendingError)]
    if not pending or not boot_id:
        return None
    return Stuck(boot_id, pending[0].means, {uuid: str(error) for error in pending for uuid in error.gpu_uuids})


def _concerned(plan: Plan, found: Mapping[str, Card]) -> _Work:
    """The cards to work on and their targets: those that differ, and whatever a reset or reboot takes along."""
    wanted = _wanted(plan)
    if plan.impact is Impact.REBOOT_NODE:
        cards = {u: card for u, card in found.items() if card.mig_capable}
        return _Work(cards, {u: wanted.get(u) or target_of(card) for u, card in cards.items()})
    differing = [found[u] for u, t in wanted.items() if not difference(found[u], t).empty]
    groups = {
        card.reset_group for card in differing if card.reset_group and card.mig_current is not wanted[card.uuid].mig
    }
    cards = {c.uuid: c for c in found.values() if c in differing or c.reset_group in groups}
    return _Work(cards, {u: wanted.get(u) or target_of(card) for u, card in cards.items()})


def _remember(journal: Journal, wanted: Targets) -> None:
    """The planned layout is the last good one, also of cards that needed no change."""
    last_good = journal.read().last_good
    if not wanted.items() <= last_good.items():
        journal.close({**last_good, **wanted})


def _wanted(plan: Plan) -> dict[str, CardTarget]:
    return {p.card.uuid: p.target for p in plan.cards if p.target is not None}


def _refused(error: GpuError) -> Result:
    reason = "InUse" if isinstance(error, HeldError) else "Unplanned"
    return Result(Outcome.REFUSED, reason, str(error), holders_in([error]))
