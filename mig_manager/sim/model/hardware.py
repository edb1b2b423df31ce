"""From a product of the card tables to a card that can be simulated.

Figures that nobody published are filled with nominal ones, because a driver always reports something: total memory
is ``memoryGB`` GiB; a slice has its eighths of that, rounded down to 1/8 GiB; multiprocessors are the card's share
(16 per slice where even the card's number is unknown); engines one of each kind per slice, with the OFA only in the
full profile and the media extension. Names computed from these figures come out as the table's names. Planning must
never rest on a nominal figure; the card tables themselves keep unknown figures unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from uuid import NAMESPACE_URL, uuid5

from mig_manager.geometry.cards import Architecture, Product, find_product, products
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.profiles import ComputeProfile, Engines, GpuInstanceProfile, ProfileTable
from mig_manager.sim.model.state import CardState, MachineError

MAX_CARDS = 16
MAX_NUMA_NODES = 8
"""The kubelet's topology manager starts on no machine that has more."""

_NAMESPACE = uuid5(NAMESPACE_URL, "https://migmanager.io/simulated")
_BUS_ID = re.compile(r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.0)?")
_COUNT = re.compile("[0-9]{1,9}")
_EIGHTHS = 8
_MEMORY_STEP_MIB = 128
_NOMINAL_SM_PER_SLICE = 16
_FIRST_BUS = 0x07
_BUS_STEP = 0x10
_USUAL_CARDS = 8
_CARDS_PER_SOCKET = 4


@dataclass(frozen=True)
class Hardware:
    """What never changes about a card. ``table`` has every figure; it is ``None`` without MIG."""

    model: str
    name: str
    device_id: int
    memory_mib: int
    architecture: Architecture
    table: ProfileTable | None


@cache
def hardware(model: str) -> Hardware:
    """The hardware of that product; MachineError when it cannot be simulated."""
    try:
        product = find_product(model)
    except LayoutError as error:
        raise MachineError(error.problem, error.hint) from error
    if (product.mig_capable and product.table is None) or not product.device_ids or product.memory_gb is None:
        known = ", ".join(p.model for p in products() if p.table is not None or not p.mig_capable)
        raise MachineError(f"{product.model} cannot be simulated: its placements are not published", f"known: {known}")
    total = product.memory_mib or product.memory_gb * 1024
    name = product.nvml_names[0]
    return Hardware(
        model=product.model,
        # Drivers since R510 put NVIDIA before the product, except for cards of the Tesla brand.
        name=name if name.startswith("Tesla ") else f"NVIDIA {name}",
        device_id=product.device_ids[0],
        memory_mib=total,
        architecture=product.architecture,
        table=_complete(product, product.table, total) if product.table else None,
    )


def figure(value: int | None) -> int:
    """A figure of a simulated card, all of which are known."""
    assert value is not None, "simulated cards have every figure"  # noqa: S101 - an invariant
    return value


def eighths(table: ProfileTable, profile: GpuInstanceProfile) -> int:
    """The share of the card's memory that an instance has, in eighths."""
    return profile.size * _EIGHTHS // table.units


def new_card(model: str, seed: str, index: int) -> CardState:
    """A card as delivered. Identity depends on ``seed`` and ``index`` alone, so output is reproducible."""
    found = hardware(model)
    identity = uuid5(_NAMESPACE, f"{seed}/{index}")
    return CardState(
        model=found.model,
        uuid=f"GPU-{identity}",
        bus_id=f"00000000:{_FIRST_BUS + _BUS_STEP * index:02X}:00.0",
        minor=index,
        serial=f"{identity.int % 10**13:013d}",
    )


def new_boot_id(seed: str, boots: int) -> str:
    """What /proc/sys/kernel/random/boot_id would say after so many boots."""
    return str(uuid5(_NAMESPACE, f"boot/{seed}/{boots}"))


def mig_uuid(card_uuid: str, gpu_instance: int, compute_instance: int) -> str:
    """The UUID of a MIG device: the same place on the same card always has the same one, as with the driver."""
    return f"MIG-{uuid5(_NAMESPACE, f'{card_uuid}/{gpu_instance}/{compute_instance}')}"


def bus_address(bus_id: str) -> tuple[int, int, int] | None:
    """Domain, bus and device of a PCI address in any usual spelling; ``None`` for what is none."""
    match = _BUS_ID.fullmatch(bus_id.lower())
    return match and (int(match["domain"] or "0", 16), int(match["bus"], 16), int(match["device"], 16))


def parse_models(specifications: list[str]) -> list[str]:
    """Product names from ``MODEL[*N]``; MachineError when unreadable, unknown, or more cards than a node has."""
    models: list[str] = []
    count = 0
    for specification in specifications:
        model, star, number = specification.partition("*")
        if star and (_COUNT.fullmatch(number) is None or not int(number)):
            raise MachineError(f"{specification!r} has no number after *", "write it like A100-SXM4-80GB*2")
        wanted = int(number) if star else 1
        models += [hardware(model).model] * min(wanted, MAX_CARDS)
        count += wanted
    if not 0 < count <= MAX_CARDS:
        raise MachineError(f"a machine with {count} cards cannot be simulated", f"give it 1 to {MAX_CARDS}")
    return models


def reset_groups(cards: list[CardState]) -> None:
    """Put the cards that are reset together into one group, in place: they are taken to share an NVSwitch board."""
    by_model = {p.model: p for p in products()}
    together = [card for card in cards if by_model[card.model].reset_together]
    if len(together) > 1:
        for card in together:
            card.reset_group = "nvswitch0"


def place_on_numa_nodes(cards: list[CardState], given: Sequence[int]) -> None:
    """Say of each card on which NUMA node it is, in place; MachineError unless ``given`` is empty or has one for each.

    Eight cards are taken to be the usual machine of two sockets with four cards each. Of any other number nothing is
    known unless it is said: such machines differ, and many have one NUMA node.
    """
    if given and len(given) != len(cards):
        raise MachineError(f"{len(given)} NUMA nodes for {len(cards)} GPUs", "name one for each GPU, in their order")
    if wrong := [node for node in given if not 0 <= node < MAX_NUMA_NODES]:
        raise MachineError(f"there is no NUMA node {wrong[0]}", f"they are counted from 0 to {MAX_NUMA_NODES - 1}")
    usual = [index // _CARDS_PER_SOCKET for index in range(_USUAL_CARDS)] if len(cards) == _USUAL_CARDS else ()
    for card, node in zip(cards, given or usual, strict=False):
        card.numa_node = node


def _complete(product: Product, table: ProfileTable, total_mib: int) -> ProfileTable:
    per_slice = (product.multiprocessors or 0) // table.full.slice_count or _NOMINAL_SM_PER_SLICE
    return ProfileTable(
        table.units,
        tuple(
            replace(
                profile,
                memory_mib=profile.memory_mib
                or eighths(table, profile) * total_mib // _EIGHTHS // _MEMORY_STEP_MIB * _MEMORY_STEP_MIB,
                multiprocessors=profile.multiprocessors or per_slice * profile.slice_count,
                engines=_engines(profile, full=profile.slice_count == table.full.slice_count),
                compute=tuple(_compute(c, profile, per_slice) for c in profile.compute),
            )
            for profile in table
        ),
    )


def _compute(compute: ComputeProfile, profile: GpuInstanceProfile, per_slice: int) -> ComputeProfile:
    whole = profile.multiprocessors if compute.slice_count == profile.slice_count else None
    return replace(compute, multiprocessors=compute.multiprocessors or whole or per_slice * compute.slice_count)


def _engines(profile: GpuInstanceProfile, *, full: bool) -> Engines:
    known, slices = profile.engines, profile.slice_count
    ofa = int(full or profile.attributes.startswith("+me"))

    def or_nominal(value: int | None, nominal: int) -> int:
        return nominal if value is None else value

    return Engines(
        copy=or_nominal(known.copy, slices),
        decoder=or_nominal(known.decoder, slices),
        encoder=or_nominal(known.encoder, 0),
        jpeg=or_nominal(known.jpeg, slices),
        ofa=or_nominal(known.ofa, ofa),
    )
