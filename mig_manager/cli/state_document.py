"""The state document: a machine written down, so that it can be planned for elsewhere.

It holds everything that a plan depends on: the cards with the profile tables that they reported (each distinct table
once), what lies on them and who uses it. The same document gives the same plan on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mig_manager.api.yaml_reader import read_documents
from mig_manager.cli.state_reader import Node
from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import ComputeProfile, Engines, GpuInstanceProfile, Placement, ProfileTable
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, Holders, SliceKey

API_VERSION = "migmanager.io/v1alpha1"
KIND = "MachineState"


def machine_document(cards: Sequence[Card], holders: Holders) -> dict[str, Any]:
    """Write a machine down."""
    tables: dict[ProfileTable, str] = {}
    for card in cards:
        if card.table is not None and card.table not in tables:
            tables[card.table] = _free_name(card.model, tables.values())
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profileTables": {name: _table_document(table) for table, name in tables.items()},
        "gpus": [_card_document(card, tables, holders) for card in cards],
    }


def read_machine(document: object, source: str) -> tuple[tuple[Card, ...], Holders]:
    """Read what ``machine_document`` wrote; LayoutError (InvalidState) with the path of what is wrong."""
    root = Node(document, source, "")
    if root.field("kind").text() != KIND or root.field("apiVersion").text() != API_VERSION:
        raise root.error(
            f"this is not a {KIND} of {API_VERSION}", "write one with mig-manager export; layouts go to -f"
        )
    tables = {name: _read_table(node) for name, node in root.field("profileTables").mapping().items()}
    cards: list[Card] = []
    holders: dict[SliceKey, frozenset[Holder]] = {}
    for node in root.field("gpus").items():
        card = _read_card(node, tables)
        if any(card.index == other.index or card.uuid == other.uuid for other in cards):
            raise node.error("a GPU with this index or UUID stands above already")
        cards.append(card)
        holders.update(_read_holders(node, card))
    return tuple(cards), holders


def parse_machine(text: str, source: str) -> tuple[tuple[Card, ...], Holders]:
    """Read the text of a document, JSON or YAML; LayoutError (InvalidYAML, InvalidState) naming ``source``."""
    try:
        # JSON first: it writes a character outside the basic plane as two escapes, which YAML does not join.
        document = json.loads(text)
    except (ValueError, RecursionError):
        pass  # YAML has a better word for what is wrong, if it is not YAML
    else:
        return read_machine(document, source)
    try:
        documents = [document.value for document in read_documents(text)]
    except LayoutError as error:
        raise error.at(source) from None
    if len(documents) != 1:
        raise LayoutError("InvalidState", f"{len(documents)} documents instead of one", path=source)
    return read_machine(documents[0], source)


def _free_name(model: str, taken: Any) -> str:  # noqa: ANN401 - any collection of names
    """Cards of one model can report different tables, under another driver for instance."""
    number, name = 1, model
    while name in taken:
        number += 1
        name = f"{model}-{number}"
    return name


def _table_document(table: ProfileTable) -> dict[str, Any]:
    return {"units": table.units, "profiles": [_profile_document(p) for p in table]}


def _profile_document(profile: GpuInstanceProfile) -> dict[str, Any]:
    engines = profile.engines
    return {
        "name": str(profile.name),
        "id": profile.id,
        "constant": profile.constant,
        "slices": profile.slice_count,
        "count": profile.instance_count,
        "starts": [p.start for p in profile.placements],
        "size": profile.size,
        "memoryMiB": profile.memory_mib,
        "multiprocessors": profile.multiprocessors,
        "engines": [engines.copy, engines.decoder, engines.encoder, engines.jpeg, engines.ofa],
        "compute": [
            {
                "id": c.id,
                "slices": c.slice_count,
                "count": c.instance_count,
                "starts": [p.start for p in c.placements],
                "multiprocessors": c.multiprocessors,
            }
            for c in profile.compute
        ],
    }


def _card_document(card: Card, tables: Mapping[ProfileTable, str], holders: Holders) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid,
        "model": card.model,
        "name": card.name,
        "deviceId": card.device_id,
        "subsystemId": card.subsystem_id,
        "busId": card.bus_id,
        "minor": card.minor,
        "memoryMiB": card.memory_mib,
        "mig": {
            "current": card.mig_current,
            "pending": card.mig_pending,
            "change": str(card.mode_change) if card.mode_change else None,
            "survivesReboot": card.mode_survives_reboot,
        },
        "resetGroup": card.reset_group,
        "profileTable": tables[card.table] if card.table is not None else None,
        "slices": [_slice_document(i, card.table) for i in card.instances],
        "holders": [
            {
                "name": holder.name,
                "leaving": holder.leaving,
                "gpuInstance": key.gpu_instance,
                "computeInstance": key.compute_instance,
            }
            for key in sorted((k for k in holders if k.gpu_uuid == card.uuid), key=_key_order)
            for holder in sorted(holders[key])
        ],
    }


def _key_order(key: SliceKey) -> tuple[int, int]:
    return (
        -1 if key.gpu_instance is None else key.gpu_instance,
        -1 if key.compute_instance is None else key.compute_instance,
    )


def _slice_document(instance: GpuInstance, table: ProfileTable | None) -> dict[str, Any]:
    profile = table.get(instance.profile_id) if table is not None else None
    return {
        "id": instance.id,
        "profile": str(profile) if profile else None,
        "profileId": instance.profile_id,
        "start": instance.placement.start,
        "size": instance.placement.size,
        "compute": [
            {"id": c.id, "start": c.placement.start, "size": c.placement.size, "uuid": c.uuid} for c in instance.compute
        ],
    }


def _read_table(node: Node) -> ProfileTable:
    units = node.field("units").number(least=1, most=64)
    profiles = tuple(_read_profile(p, units) for p in node.field("profiles").items())
    if not profiles:
        raise node.field("profiles").error("a card with MIG has at least one profile")
    if len({p.id for p in profiles}) != len(profiles):
        raise node.field("profiles").error("two profiles have the same id")
    return ProfileTable(units, profiles)


def _read_profile(node: Node, units: int) -> GpuInstanceProfile:
    size = node.field("size").number(least=1, most=units)
    starts = [start.number(most=units - size) for start in node.field("starts").items()]
    engines = [e.optional_number() for e in node.field("engines").items()]
    if not starts or len(engines) != len(Engines.__dataclass_fields__):
        raise node.error("a profile has at least one start and five engines: copy, decoder, encoder, jpeg, ofa")
    return GpuInstanceProfile(
        id=node.field("id").number(),
        constant=node.field("constant").number(),
        name=_read_name(node.field("name")),
        slice_count=node.field("slices").number(least=1, most=units),
        instance_count=node.field("count").number(least=1, most=units),
        placements=tuple(Placement(start, size) for start in starts),
        memory_mib=node.field("memoryMiB").optional_number(),
        multiprocessors=node.field("multiprocessors").optional_number(),
        engines=Engines(*engines),
        compute=tuple(_read_compute_profile(c, units) for c in node.field("compute").items()),
    )


def _read_name(node: Node) -> SliceName:
    with node.located():
        return SliceName.parse(node.text())


def _read_compute_profile(node: Node, units: int) -> ComputeProfile:
    slices = node.field("slices").number(least=1, most=units)
    starts = [start.number(most=units - slices) for start in node.field("starts").items()]
    return ComputeProfile(
        id=node.field("id").number(),
        slice_count=slices,
        instance_count=node.field("count").number(least=1, most=units),
        placements=tuple(Placement(start, slices) for start in starts),
        multiprocessors=node.field("multiprocessors").optional_number(),
    )


def _read_card(node: Node, tables: Mapping[str, ProfileTable]) -> Card:
    named = node.field("profileTable")
    table: ProfileTable | None = None
    if named.value is not None:
        if named.text() not in tables:
            raise named.error(f"there is no profile table {named.value!r}", f"there are {', '.join(tables) or 'none'}")
        table = tables[named.text()]
    mig = node.field("mig")
    change = mig.field("change")
    instances = tuple(_read_instance(s, table) for s in node.field("slices").items())
    occupied = 0
    for instance in instances:
        if instance.placement.mask & occupied:
            raise node.field("slices").error(f"two slices lie on the units {instance.placement}")
        occupied |= instance.placement.mask
    return Card(
        index=node.field("index").number(),
        uuid=node.field("uuid").text(),
        model=node.field("model").text(),
        name=node.field("name").text(),
        device_id=node.field("deviceId").number(),
        subsystem_id=node.field("subsystemId").number(),
        bus_id=node.field("busId").text(),
        minor=node.field("minor").optional_number(),
        memory_mib=node.field("memoryMiB").number(least=1),
        mig_current=mig.field("current").optional_flag(),
        mig_pending=mig.field("pending").optional_flag(),
        mode_change=ModeChange(change.one_of([*ModeChange])) if change.value is not None else None,
        mode_survives_reboot=mig.field("survivesReboot").flag(),
        reset_group=node.field("resetGroup").text(),
        table=table,
        instances=instances,
    )


def _read_instance(node: Node, table: ProfileTable | None) -> GpuInstance:
    placement = Placement(node.field("start").number(), node.field("size").number(least=1))
    profile = table.get(node.field("profileId").number()) if table is not None else None
    if profile is None or placement not in profile.placements:
        raise node.error("the GPU's profile table has no such profile or placement")
    return GpuInstance(
        id=node.field("id").number(),
        profile_id=profile.id,
        placement=placement,
        compute=tuple(
            ComputeInstance(
                c.field("id").number(),
                Placement(
                    c.field("start").number(most=profile.slice_count - 1),
                    c.field("size").number(least=1, most=profile.slice_count),
                ),
                c.field("uuid").text(),
            )
            for c in node.field("compute").items()
        ),
    )


def _read_holders(node: Node, card: Card) -> dict[SliceKey, frozenset[Holder]]:
    found: dict[SliceKey, frozenset[Holder]] = {}
    instances = {None: {None}} | {i.id: {None, *(c.id for c in i.compute)} for i in card.instances}
    for item in node.field("holders").items():
        instance = item.field("gpuInstance").optional_number()
        compute = item.field("computeInstance").optional_number()
        if compute not in instances.get(instance, ()):
            raise item.error("the GPU has no such slice")
        key = SliceKey(card.uuid, instance, compute)
        holder = Holder(item.field("name").text(), item.field("leaving").flag())
        found[key] = found.get(key, frozenset()) | {holder}
    return found
