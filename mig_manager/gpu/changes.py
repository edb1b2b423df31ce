"""Bringing cards to their targets through the port, one destructive call at a time, and never beyond what was planned.

Nothing is searched or decided here: what to do follows from the difference between a fresh read and the target, so
the same code applies a plan, finishes what a crash interrupted, and goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import (
    Card,
    ComputeInstance,
    GpuInstance,
    Holder,
    Holders,
    holders_of_card,
    holders_of_instance,
)
from mig_manager.gpu.holders import FindHolders, GhostHolderError, HeldError, holders_of_compute
from mig_manager.gpu.journal import Targets
from mig_manager.gpu.parts import Action, Event, Part, UnplannedError, compute_name_of, name_of, parts_on
from mig_manager.gpu.port import GpuError, Gpus, GpuSession, InUseError, NotFoundError, NotSupportedError
from mig_manager.gpu.reset import PendingError, Reset
from mig_manager.planner.target import CardTarget, TargetSlice, difference

_T = TypeVar("_T")
_Attempt = Callable[[], AbstractContextManager[None]]

# NVML can report an instance in use for a moment after its last client has gone (NVIDIA go-nvml issue 146).
IN_USE_PAUSES_S = (1.0, 2.0, 4.0)


@dataclass
class Changes:
    """Changes to the cards of this machine.

    Only ``expendable`` parts are ever destroyed. ``calls`` are the calls that succeeded, ``cards`` what was read back.
    Where modes become current by a reboot, ``reboot`` asks for one, and ``rebooted`` says that it has been.
    """

    gpus: Gpus
    find_holders: FindHolders
    progress: Callable[[Event], None]
    sleep: Callable[[float], None]
    reset: Reset | None
    expendable: frozenset[Part]
    reboot: Callable[[], None] | None = None
    rebooted: bool = False
    calls: list[Event] = field(default_factory=list)
    cards: dict[str, Card] = field(default_factory=dict)

    def reach(self, targets: Targets, *, all_cards: bool = False) -> list[GpuError]:
        """Bring every card to its target and read it back; the errors say why that is not so, if it is not.

        The first error ends it, except that with ``all_cards`` every card gets its chance: going back must heal what
        can be healed.
        """
        errors: list[GpuError] = []

        @contextmanager
        def attempt() -> Iterator[None]:
            try:
                yield
            except GpuError as error:
                if not all_cards:
                    raise
                errors.append(error)

        try:
            self._run(targets, attempt)
        except GpuError as error:
            errors.append(error)
        return errors

    def _run(self, targets: Targets, attempt: _Attempt) -> None:
        """Modes of all cards first, because a reset takes neighbours along; no session is open during a reset.

        A reboot ends this process, or is waited for: RebootingError then.
        """
        with attempt():
            with self.gpus.session() as session:
                waiting = self._change_modes(session, targets, attempt)
                together: list[Card] = []
                with attempt():
                    together = self._reset_together(session, waiting)
                if not together:
                    # Nobody waits for a reset, or it would hurt somebody: that keeps no other card from its layout.
                    pending = {target.gpu_uuid for target in waiting}
                    others = {uuid: target for uuid, target in targets.items() if uuid not in pending}
                    self._change_all_instances(session, others, attempt)
            if together:
                with attempt():
                    self._activate(together, waiting)
                with self.gpus.session() as session:
                    self._change_all_instances(session, targets, attempt)
        with attempt(), self.gpus.session() as session:
            for target in targets.values():
                with attempt():
                    self._verify(session, target)

    def _change_modes(self, session: GpuSession, targets: Targets, attempt: _Attempt) -> list[CardTarget]:
        """Ask for every mode; what only a reset makes current comes back."""
        waiting = []
        for target in targets.values():
            with attempt():
                if not self._change_mode(session, target):
                    waiting.append(target)
        return waiting

    def _change_all_instances(self, session: GpuSession, targets: Targets, attempt: _Attempt) -> None:
        for target in targets.values():
            with attempt():
                self._change_instances(session, target)

    def _change_mode(self, session: GpuSession, target: CardTarget) -> bool:
        """Ask for the target's mode if it is not the pending one; whether it is the current one afterwards."""
        card = session.card(target.gpu_uuid)
        change = difference(card, target)
        if not change.becomes_current:
            for instance in change.destroy:
                self._destroy_instance(session, card, instance)
        if change.set_mode is None:
            return change.becomes_current
        action = Action.ENABLE if target.mig else Action.DISABLE

        def set_mode() -> str:
            if not change.becomes_current:  # otherwise only a pending wish of somebody is taken back
                self._refuse_held(f"{action} {card.label}", holders_of_card(self._holders(session, card), card.uuid))
            return session.set_mig_mode(card.uuid, enabled=target.mig).status

        status = self._call(Event(action, card.uuid, card.label), set_mode)
        card = session.card(card.uuid)
        if card.mig_pending is not target.mig:
            said = status or "the driver reported success, but nothing changed"
            raise GpuError(_mode_act(card, target), said, 0)
        return card.mig_current is target.mig

    def _reset_together(self, session: GpuSession, waiting: Sequence[CardTarget]) -> list[Card]:
        """The cards that a reset or reboot takes along, once it is sure that it hurts nobody on any of them.

        None where no card waits for one.
        """
        if not waiting:
            return []
        cards = session.cards()
        uuids = {target.gpu_uuid for target in waiting}
        groups = {card.reset_group for card in cards if card.uuid in uuids} - {""}
        everything = self.reboot is not None
        together = [card for card in cards if everything or card.uuid in uuids or card.reset_group in groups]
        for card in together:
            act = f"{Action.REBOOT if everything else Action.RESET} {card.label}"
            self._refuse_held(act, holders_of_card(self._holders(session, card), card.uuid))
            if parts_on(card, card.instances) - self.expendable:
                raise UnplannedError(act)
        return together

    def _activate(self, together: Sequence[Card], waiting: Sequence[CardTarget]) -> None:
        """Make the pending modes current, by the means that this change has."""
        uuids = [target.gpu_uuid for target in waiting]
        card = next(card for card in together if card.uuid == uuids[0])
        act = _mode_act(card, waiting[0])
        if self.rebooted:
            raise PendingError(act, "still pending after a reboot", "reboot", uuids)
        if self.reboot is not None:
            labels = ", ".join(card.label for card in together if card.uuid in uuids)
            self._call(Event(Action.REBOOT, card.uuid, labels), self.reboot)
        elif self.reset is not None:
            self._reset(self.reset, together, uuids)
        else:
            raise PendingError(act, "pending until the card is reset or the node rebooted", "reset", uuids)

    def _reset(self, reset: Reset, together: Sequence[Card], waiting: Sequence[str]) -> None:
        labels = ", ".join(card.label for card in together)
        try:
            self._call(Event(Action.RESET, together[0].uuid, labels), lambda: reset(together))
        except NotSupportedError as error:
            raise PendingError(error.doing, error.text, "reset", waiting, error.code) from error

    def _change_instances(self, session: GpuSession, target: CardTarget) -> None:
        """Compute instances go before the GPU instances they lie in; everything goes before anything comes."""
        card = session.card(target.gpu_uuid)
        change = difference(card, target)
        if not change.becomes_current:
            raise PendingError(_mode_act(card, target), "the reset did not make it current", "reset", [card.uuid])
        for kept in change.keep:
            for compute in kept.destroy_compute:
                self._destroy_compute(session, card, kept.instance, compute)
        for instance in change.destroy:
            self._destroy_instance(session, card, instance)
        for kept in change.keep:
            for placement in kept.create_compute:
                self._create_compute(session, card, kept.instance, placement)
        for wanted in change.create:
            self._create_instance(session, card, wanted)

    def _destroy_instance(self, session: GpuSession, card: Card, instance: GpuInstance) -> None:
        name = name_of(card, instance.profile_id, instance.placement)

        def look() -> None:
            holders = holders_of_instance(self._holders(session, card), card.uuid, instance.id)
            self._refuse_held(f"{Action.DESTROY_INSTANCE} {name}", holders)

        self._refuse_unplanned(f"{Action.DESTROY_INSTANCE} {name}", parts_on(card, (instance,)))
        look()  # before anything inside goes
        for compute in instance.compute:
            self._destroy_compute(session, card, instance, compute)

        def destroy() -> None:
            look()
            with suppress(NotFoundError):  # gone already, which is what was wanted
                session.destroy_gpu_instance(card.uuid, instance.id)

        self._call(Event(Action.DESTROY_INSTANCE, card.uuid, name), destroy)

    def _destroy_compute(
        self, session: GpuSession, card: Card, instance: GpuInstance, compute: ComputeInstance
    ) -> None:
        name = compute_name_of(card, instance, compute.placement)
        act = f"{Action.DESTROY_COMPUTE} {name}"
        part = Part(card.uuid, instance.profile_id, instance.placement, compute.placement)
        self._refuse_unplanned(act, frozenset((part,)))

        def destroy() -> None:
            holders = self._holders(session, card)
            self._refuse_held(act, holders_of_compute(holders, card.uuid, instance, compute))
            with suppress(NotFoundError):
                session.destroy_compute_instance(card.uuid, instance.id, compute.id)

        self._call(Event(Action.DESTROY_COMPUTE, card.uuid, name), destroy)

    def _create_instance(self, session: GpuSession, card: Card, wanted: TargetSlice) -> None:
        name = name_of(card, wanted.profile_id, wanted.placement)
        created = self._call(
            Event(Action.CREATE_INSTANCE, card.uuid, name),
            lambda: session.create_gpu_instance(card.uuid, wanted.profile_id, wanted.placement),
        )
        instance = GpuInstance(created, wanted.profile_id, wanted.placement)
        for placement in wanted.compute:
            self._create_compute(session, card, instance, placement)

    def _create_compute(self, session: GpuSession, card: Card, instance: GpuInstance, placement: Placement) -> None:
        name = compute_name_of(card, instance, placement)
        self._call(
            Event(Action.CREATE_COMPUTE, card.uuid, name),
            lambda: session.create_compute_instance(card.uuid, instance.id, placement),
        )

    def _verify(self, session: GpuSession, target: CardTarget) -> None:
        card = session.card(target.gpu_uuid)
        self.cards[card.uuid] = card
        if not difference(card, target).empty:
            raise GpuError(f"verifying {card.label}", "the card does not show the layout that was made", 0)

    def _call(self, event: Event, act: Callable[[], _T]) -> _T:
        """Do it, patiently while NVML says in use; a holder that has a name is no reason for patience.

        GhostHolderError when patience was in vain.
        """
        self.progress(event)
        for pause in (*IN_USE_PAUSES_S, None):
            try:
                result = act()
            except HeldError:
                raise
            except InUseError as error:
                if pause is None:
                    raise GhostHolderError(error) from error
                self.sleep(pause)
            else:
                break
        self.calls.append(event)
        return result

    def _holders(self, session: GpuSession, card: Card) -> Holders:
        return self.find_holders(session, (card.uuid,))

    def _refuse_held(self, act: str, holders: frozenset[Holder]) -> None:
        if holders:
            raise HeldError(act, holders)

    def _refuse_unplanned(self, act: str, parts: frozenset[Part]) -> None:
        if parts - self.expendable:
            raise UnplannedError(act)


def _mode_act(card: Card, target: CardTarget) -> str:
    return f"{Action.ENABLE if target.mig else Action.DISABLE} {card.label}"
