"""Cards in every state, holders of every kind, and the strict rules by which a card changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from mig_manager.geometry.cards import ModeChange, find_product
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.resolve import place_compute
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, Holders, SliceKey
from mig_manager.planner.plan import CardPlan, Plan
from mig_manager.planner.target import Difference

MODELS = ("A100-SXM4-80GB", "A30", "RTX-PRO-6000-Server", "H100-SXM5-80GB")


def make_card(model: str = "A100-SXM4-80GB", index: int = 0, *, mig: bool = True, group: str = "") -> Card:
    """An empty card."""
    product = find_product(model)
    capable = product.mig_capable
    return Card(
        index=index,
        uuid=f"GPU-{index}",
        model=product.model,
        name=f"NVIDIA {product.nvml_names[0]}",
        device_id=product.device_ids[0],
        bus_id=f"0000:{index:02x}:00.0",
        memory_mib=product.memory_mib or (product.memory_gb or 0) * 1024,
        mig_current=mig if capable else None,
        mig_pending=mig if capable else None,
        table=product.table,
        mode_change=product.architecture.mode_change,
        reset_group=group,
    )


def with_slices(card: Card, *slices: str) -> Card:
    """The card cut into ``profile@start``, each with one full compute instance (or ``profile@start/1c,2c``)."""
    instances = []
    for number, text in enumerate(slices):
        where, _, compute = text.partition("/")
        name, _, start = where.partition("@")
        profile = next(p for p in card.profiles if name in (str(p), str(p.name.shape)))
        widths = tuple(int(w[0]) for w in compute.split(",")) if compute else (profile.slice_count,)
        placement = profile.placement_at(int(start))
        placed = place_compute(profile.compute, widths)
        assert placement is not None
        assert placed is not None
        instances.append(
            GpuInstance(
                number, profile.id, placement, tuple(ComputeInstance(i, at) for i, at in enumerate(sorted(placed)))
            )
        )
    return replace(card, instances=tuple(instances))


def hold(card: Card, **who: str) -> dict[SliceKey, frozenset[Holder]]:
    """``hold(card, p="0 2")``: pod p holds the slices that start at 0 and 2."""
    held: dict[SliceKey, set[Holder]] = {}
    for pod, starts in who.items():
        for start in starts.split():
            instance = next(i for i in card.instances if i.placement.start == int(start))
            held.setdefault(SliceKey(card.uuid, instance.id, instance.compute[0].id), set()).add(Holder(pod))
    return {key: frozenset(holders) for key, holders in held.items()}


def layout(*requests: str | SliceRequest) -> Layout:
    """One entry for every card: ``layout("1g*2", "3g@4", "1g*max")``."""
    return Layout((entry(*requests),))


def entry(*requests: str | SliceRequest, **more: object) -> GpuEntry:
    return GpuEntry(tuple(r if isinstance(r, SliceRequest) else _request(r) for r in requests), **more)  # type: ignore[arg-type]


def _request(text: str) -> SliceRequest:
    name, _, count = text.partition("*")
    name, _, start = name.partition("@")
    return SliceRequest(
        SliceName.parse(name), "max" if count == "max" else int(count or 1), int(start) if start else None
    )


def maximal_layouts(table: ProfileTable, profile_ids: Sequence[int]) -> list[tuple[tuple[int, Placement], ...]]:
    """Every set of placements of these profiles to which none can be added."""
    places = [(p, at) for p in profile_ids for at in table[p].placements]

    def grow(
        at: int, occupied: int, taken: tuple[tuple[int, Placement], ...]
    ) -> Iterator[tuple[tuple[int, Placement], ...]]:
        if all(where.mask & occupied for _, where in places):
            yield taken
        for i in range(at, len(places)):
            if not places[i][1].mask & occupied:
                yield from grow(i + 1, occupied | places[i][1].mask, (*taken, places[i]))

    return list(grow(0, 0, ()))


# --- strategies ---


@st.composite
def cut_cards(draw: st.DrawFn, model: str, index: int = 0) -> Card:
    """A card of that model cut at random, compute instances included."""
    card = make_card(model, index)
    table = card.profiles
    places = [(p, at) for p in table for at in p.placements]
    order = draw(st.permutations(range(len(places))))
    stop = draw(st.integers(0, table.units))
    occupied = 0
    instances: list[GpuInstance] = []
    counts: Counter[int] = Counter()
    for i in order[: stop * 3]:
        profile, at = places[i]
        if at.mask & occupied or counts[profile.id] >= profile.instance_count or profile.attributes == "+me.all":
            continue
        if profile.engines.ofa and any(table[p].engines.ofa for p in counts):
            continue
        occupied |= at.mask
        counts[profile.id] += 1
        compute = draw(compute_layouts(profile.slice_count))
        instances.append(GpuInstance(100 - len(instances), profile.id, at, compute))
    return replace(card, instances=tuple(instances))


@st.composite
def compute_layouts(draw: st.DrawFn, width: int) -> tuple[ComputeInstance, ...]:
    """Mostly one full compute instance; sometimes several, sometimes none."""
    kind = draw(st.sampled_from(["full", "full", "full", "ones", "none"]))
    if kind == "full":
        return (ComputeInstance(0, Placement(0, width)),)
    if kind == "none":
        return ()
    number = draw(st.integers(1, width))
    starts = draw(st.permutations(range(width)))[:number]
    return tuple(ComputeInstance(i, Placement(s, 1)) for i, s in enumerate(sorted(starts)))


@st.composite
def held_slices(draw: st.DrawFn, cards: Sequence[Card]) -> Holders:
    """Pods on some compute instances: most on one slice, some on several, also across cards, some leaving."""
    keys = [SliceKey(c.uuid, i.id, ci.id) for c in cards for i in c.instances for ci in i.compute]
    held: dict[SliceKey, frozenset[Holder]] = {}
    for key in keys:
        pods = draw(st.lists(st.integers(0, 5), max_size=2))
        if pods:
            held[key] = frozenset(Holder(f"ns/pod-{p}", leaving=p == 5) for p in pods)
    return held


@st.composite
def requests(draw: st.DrawFn, model: str) -> tuple[SliceRequest, ...]:
    """A small multiset of slices by name, sometimes with a pin, compute instances or a fill."""
    table = make_card(model).profiles
    chosen = draw(st.lists(st.sampled_from(list(table)), min_size=1, max_size=3, unique_by=lambda p: p.id))
    found, filled = [], False
    for profile in chosen:
        kind = draw(st.sampled_from(["plain", "plain", "plain", "pin", "compute", "max"]))
        if kind == "pin":
            start = draw(st.sampled_from(profile.placements)).start
            found.append(SliceRequest(profile.name, 1, start))
        elif kind == "compute":
            ones = tuple([1] * draw(st.integers(1, profile.slice_count)))
            found.append(SliceRequest(profile.name, draw(st.integers(1, 2)), compute=ones))
        elif kind == "max" and not filled:
            filled = True
            found.append(SliceRequest(profile.name, "max"))
        else:
            found.append(SliceRequest(profile.name, draw(st.integers(1, min(4, profile.instance_count)))))
    return tuple(found)


# --- the strict rules by which a card changes ---

Operation = tuple[str, str, tuple[object, ...]]
"""What to do, on which card (UUID), with which arguments."""


def operations(plan: Plan) -> list[Operation]:
    """What carrying out a plan does, in order: per card, compute before GPU instances, destroy before create."""
    found: list[Operation] = []
    for card_plan in plan.cards:
        found += _operations(card_plan)
    return found


def _operations(plan: CardPlan) -> Iterator[Operation]:
    uuid, change = plan.card.uuid, plan.difference
    for kept in change.keep:
        for ci in kept.destroy_compute:
            yield ("destroy ci", uuid, (kept.instance.id, ci.id))
    for gi in change.destroy:
        for ci in gi.compute:
            yield ("destroy ci", uuid, (gi.id, ci.id))
        yield ("destroy gi", uuid, (gi.id,))
    if change.set_mode is not None:
        yield ("set mode", uuid, (change.set_mode,))
    if plan.reset:
        yield ("reset", uuid, ())
    yield from _creations(uuid, change)


def _creations(uuid: str, change: Difference) -> Iterator[Operation]:
    for piece in change.create:
        yield ("create gi", uuid, (piece.profile_id, piece.placement))
        for at in piece.compute:
            yield ("create ci", uuid, (piece.placement, at))
    for kept in change.keep:
        for at in kept.create_compute:
            yield ("create ci", uuid, (kept.instance.placement, at))


def perform(cards: Sequence[Card], todo: Sequence[Operation]) -> list[Card]:
    """Do these operations as a driver would; an impossible one is an AssertionError."""
    by_uuid = {card.uuid: card for card in cards}
    for what, uuid, arguments in todo:
        by_uuid[uuid] = _perform(by_uuid[uuid], what, arguments)
    return [by_uuid[card.uuid] for card in cards]


def _perform(card: Card, what: str, a: tuple[object, ...]) -> Card:
    gis = card.instances
    if what == "set mode":
        immediate = card.mode_change is ModeChange.IMMEDIATE
        assert not (gis and immediate)
        return replace(card, mig_pending=bool(a[0]), mig_current=bool(a[0]) if immediate else card.mig_current)
    if what == "reset":
        return replace(card, mig_current=card.mig_pending, instances=())
    assert card.mig_current
    if what == "destroy ci":
        return _change_compute(card, lambda g: g.id == a[0], lambda cis: tuple(c for c in cis if c.id != a[1]))
    if what == "destroy gi":
        assert not next(g for g in gis if g.id == a[0]).compute
        return replace(card, instances=tuple(g for g in gis if g.id != a[0]))
    if what == "create gi":
        profile_id, placement = a
        assert isinstance(profile_id, int)
        assert isinstance(placement, Placement)
        assert placement in card.profiles[profile_id].placements
        assert not any(g.placement.mask & placement.mask for g in gis)
        return replace(
            card, instances=(*gis, GpuInstance(max((g.id for g in gis), default=0) + 1, profile_id, placement))
        )
    at = a[1]
    assert isinstance(at, Placement)

    def add(cis: tuple[ComputeInstance, ...]) -> tuple[ComputeInstance, ...]:
        assert not any(c.placement.mask & at.mask for c in cis)
        return (*cis, ComputeInstance(max((c.id for c in cis), default=-1) + 1, at))

    return _change_compute(card, lambda g: g.placement == a[0], add)


def _change_compute(card: Card, which: object, change: object) -> Card:
    assert callable(which)
    assert callable(change)
    found = [g for g in card.instances if which(g)]
    assert 1 == len(found)
    return replace(
        card, instances=tuple(replace(g, compute=change(g.compute)) if g is found[0] else g for g in card.instances)
    )
