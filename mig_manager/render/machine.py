"""A machine as text: every card with its mode, its slices and who uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.state import Card, GpuInstance, Holders, SliceKey
from mig_manager.render.bar import draw_bar, ruler
from mig_manager.render.cells import cells_now, holder_marks, mode_note, units_of
from mig_manager.render.folding import NO_GPU, folded
from mig_manager.render.look import Look
from mig_manager.render.plan import profile_name


def machine_lines(cards: Sequence[Card], holders: Holders, look: Look, *, wide: bool = False) -> list[str]:
    """The whole machine. ``wide`` adds names, bus ids and the UUIDs of cards and slices."""
    if not cards:
        return [NO_GPU]
    described = [(card, list(_card_lines(card, holders, look, wide=wide))) for card in cards]
    return [look.plain(line) for line in folded(described, look)[:-1]]


def _card_lines(card: Card, holders: Holders, look: Look, *, wide: bool) -> Iterator[str]:
    if wide:
        yield f"  {card.name}, {card.memory_mib} MiB, bus id {card.bus_id}"
        yield f"  {card.uuid}"
    if not mode_note(card) and card.table is not None:
        yield ruler(units_of(card))
    label = "MIG on" if card.mig_current else ""  # a card without slices says so inside its bar
    yield from draw_bar(units_of(card), cells_now(card, holder_marks(card, holders)), label, look)
    if card.mig_pending is not card.mig_current:
        wanted = "on" if card.mig_pending else "off"
        needed = "a reset of the GPU or a reboot" if card.mode_change is ModeChange.RESET else "a reboot"
        yield f"  MIG mode {wanted} is pending; {needed} makes it current"
    if wide:
        for instance in card.instances:
            yield from _device_lines(card, instance)
    yield from _holder_lines(card, holders)


def _device_lines(card: Card, instance: GpuInstance) -> Iterator[str]:
    name = f"{profile_name(card.table, instance.profile_id)} at {instance.placement.start}"
    for compute in sorted(instance.compute, key=lambda c: c.placement):
        yield f"  {name}  GI {instance.id} CI {compute.id}  {compute.uuid}"
    if not instance.compute:
        yield f"  {name}  GI {instance.id}, no compute instance"


def _holder_lines(card: Card, holders: Holders) -> Iterator[str]:
    for key in sorted(holders, key=lambda k: _place(card, k)):
        if key.gpu_uuid == card.uuid:
            for holder in sorted(holders[key]):
                yield f"  busy  {_slice(card, key)}: {holder.name}{' (leaving)' if holder.leaving else ''}"


def _place(card: Card, key: SliceKey) -> tuple[int, int]:
    instance = _instance(card, key)
    return (instance.placement.start if instance else -1, key.compute_instance or 0)


def _instance(card: Card, key: SliceKey) -> GpuInstance | None:
    return next((i for i in card.instances if i.id == key.gpu_instance), None)


def _slice(card: Card, key: SliceKey) -> str:
    instance = _instance(card, key)
    if instance is None:
        return "the whole GPU"
    name = f"{profile_name(card.table, instance.profile_id)} at {instance.placement.start}"
    compute = next((c for c in instance.compute if c.id == key.compute_instance), None)
    profile = card.table.get(instance.profile_id) if card.table is not None else None
    if compute is None or (profile is not None and compute.placement.size == profile.slice_count):
        return name
    return f"{compute.placement.size}c at {compute.placement.start} of {name}"
